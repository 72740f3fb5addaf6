#include "04_ring_allreduce/ring_segmented.hpp"

#include <algorithm>

#include "03_naive_allreduce/check_spans.hpp"
#include "04_ring_allreduce/add_packs.cuh"

namespace ddp {

template <class T>
RingSegmentedAllReduce<T>::RingSegmentedAllReduce(const mpi::Communicator& communicator,
                                                  bool device_pointers)
    : communicator_(communicator),
      device_pointers_(device_pointers),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      added_(slots) {}

template <class T>
void RingSegmentedAllReduce<T>::sum(std::span<const T> input, std::span<T> output,
                                    cudaStream_t stream) {
  check_spans(input, output);
  if (output.empty()) return;
  if (ranks_ == 1) {
    if (input.data() != output.data()) {
      cuda::copy_async(output.data(), input.data(), output.size(), stream);
    }
    return;
  }
  plan(input, output, stream);
  cuda::check(cudaStreamSynchronize(stream));
  for (std::size_t item = 0; item < ahead_; ++item) start(item);
  for (std::size_t item = 0; item < items_.size(); ++item) {
    items_[item].receive.wait();
    take(item);
    if (item + ahead_ < items_.size()) start(item + ahead_);
  }
  finish_sends(items_.size());
  cuda::check(cudaStreamSynchronize(stream));  // the next call may use another stream
}

template <class T>
void RingSegmentedAllReduce<T>::plan(std::span<const T> input, std::span<T> output,
                                     cudaStream_t stream) {
  input_ = input;
  output_ = output;
  stream_ = stream;
  const std::size_t largest_chunk = chunk_of(output.size(), ranks_, 0).count;
  segments_ = (largest_chunk * sizeof(T) + segment_bytes - 1) / segment_bytes;
  const std::size_t groups = (segments_ + segments_of_a_group - 1) / segments_of_a_group;
  ahead_ = std::min(receives_under_way, segments_ / groups);
  items_.clear();
  for (std::size_t g = 0; g < groups; ++g) {
    const Chunk group = chunk_of(segments_, static_cast<int>(groups), static_cast<int>(g));
    for (int step = 0; step < 2 * (ranks_ - 1); ++step) {
      for (std::size_t k = 0; k < group.count; ++k) {
        items_.push_back({step, group.offset + k, group.count, {}, {}});
      }
    }
  }
  finished_sends_ = 0;
  // Room for a segment and for moving it, so that it lies to a boundary as its sum will.
  const std::size_t largest_segment = (largest_chunk + segments_ - 1) / segments_;
  slot_size_ = (largest_segment / 64 + 2) * 64;
  device_ = device_slots_.of_size(slots * slot_size_).data();
  if (!device_pointers_) {
    pinned_ = pinned_slots_.of_size((slots + sends_under_way) * slot_size_).data();
  }
}

/// Where an item lies in the buffer: what this rank sends, or, with `later` = 1, what it will send
/// one step later, which is what it receives now.
template <class T>
Chunk RingSegmentedAllReduce<T>::segment_at(std::size_t item, int later) const {
  const int step = items_[item].step + later;
  const Chunk chunk = chunk_of(output_.size(), ranks_, (rank_ - step + 2 * ranks_) % ranks_);
  const Chunk within =
      chunk_of(chunk.count, static_cast<int>(segments_), static_cast<int>(items_[item].segment));
  return {chunk.offset + within.offset, within.count};
}

template <class T>
std::span<const T> RingSegmentedAllReduce<T>::outgoing(std::size_t item) const {
  const std::span<const T> sums = output_;
  return part(items_[item].step == 0 ? input_ : sums, segment_at(item, 0));  // first my own terms
}

template <class T>
std::span<T> RingSegmentedAllReduce<T>::incoming(std::size_t item) const {
  return part(output_, segment_at(item, 1));
}

template <class T>
std::span<T> RingSegmentedAllReduce<T>::device_slot(std::size_t item) const {
  const std::span<T> place = incoming(item);
  return {device_ + item % slots * slot_size_ + elements_past_boundary(place.data()), place.size()};
}

/// Starts to receive and to send an item. Waits for what that needs: an earlier item added, a slot
/// that is free again.
template <class T>
void RingSegmentedAllReduce<T>::start(std::size_t item) {
  const int left = (rank_ + ranks_ - 1) % ranks_, right = (rank_ + 1) % ranks_;
  const std::size_t distance = items_[item].distance;
  if (item >= sends_under_way) finish_sends(item - sends_under_way + 1);
  std::span<const T> sent = outgoing(item);
  std::span<T> received = is_added(item) ? device_slot(item) : incoming(item);
  if (device_pointers_) {
    added_[item % slots].synchronize();  // what lay in the slot
    if (items_[item].step > 0) added_[(item - distance) % slots].synchronize();  // what is sent
    // A finished chunk arrives where this rank's terms were sent from, N - 1 steps ago.
    if (!is_added(item)) finish_sends(item - static_cast<std::size_t>(ranks_ - 1) * distance + 1);
  } else {
    T* const send_slot = pinned_ + (slots + item % sends_under_way) * slot_size_;
    cuda::copy_async(send_slot, sent.data(), sent.size(), stream_);
    cuda::check(cudaStreamSynchronize(stream_));  // also frees the slot to receive in
    sent = {send_slot, sent.size()};
    received = {pinned_ + item % slots * slot_size_, received.size()};
  }
  items_[item].receive = communicator_.start_receive(received, left);
  items_[item].send = communicator_.start_send(sent, right);
}

/// Enqueues what is to be done with an item that has been received.
template <class T>
void RingSegmentedAllReduce<T>::take(std::size_t item) {
  const std::span<T> place = incoming(item);
  const std::span<T> target = is_added(item) ? device_slot(item) : place;
  if (!device_pointers_) {
    const T* const received = pinned_ + item % slots * slot_size_;
    cuda::copy_async(target.data(), received, target.size(), stream_);
  }
  if (!is_added(item)) return;
  const T* const own = part(input_, segment_at(item, 1)).data();
  add_packs<T>(target.data(), own, place, stream_);
  added_[item % slots].record(stream_);
}

/// Waits until all sends before `end` are done: what they sent may change.
template <class T>
void RingSegmentedAllReduce<T>::finish_sends(std::size_t end) {
  for (; finished_sends_ < end; ++finished_sends_) items_[finished_sends_].send.wait();
}

template class RingSegmentedAllReduce<float>;
template class RingSegmentedAllReduce<double>;

}  // namespace ddp
