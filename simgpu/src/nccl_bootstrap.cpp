#include "nccl_bootstrap.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "nccl_shared.hpp"

namespace simgpu::nccl {
namespace {

constexpr std::string_view prefix = "simgpu-nccl-";

struct Address {
  explicit Address(std::string_view name) {
    address.sun_family = AF_UNIX;  // followed by a zero: a name, not a path
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t bytes;
};

File new_socket() { return File(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

std::string_view name_of(const ncclUniqueId& id) {
  return {id.internal, strnlen(id.internal, sizeof id.internal)};
}

/// Sends one byte with the descriptor beside it.
void send_file(int socket, int file) {
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(head), &file, sizeof file);
  (void)sendmsg(socket, &message, MSG_NOSIGNAL);  // who has gone meanwhile does not matter
}

File receive_file(int socket) {
  char byte = 0;
  iovec content{&byte, 1};
  int file = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return File();
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return File();
  std::memcpy(&file, CMSG_DATA(head), sizeof file);
  return File(file);
}

bool of_this_user(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

/// Hands the memory to as many ranks as the first one says that there are.
void hand_out(const File& listening, const File& memory) {
  for (std::int32_t served = 0, ranks = 1; served < ranks;) {
    const File rank(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!rank) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    const timeval limit{5, 0};
    setsockopt(rank.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::int32_t told = 0;
    if (!of_this_user(rank.get()) || recv(rank.get(), &told, sizeof told, 0) != sizeof told) {
      continue;
    }
    if (served++ == 0) ranks = told;
    send_file(rank.get(), memory.get());
  }
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool serve(ncclUniqueId& id) {
  std::uint64_t random[2];
  if (getrandom(random, sizeof random, 0) != sizeof random) return false;
  std::memset(&id, 0, sizeof id);
  std::snprintf(id.internal, sizeof id.internal, "%s%016llx%016llx", prefix.data(),
                static_cast<unsigned long long>(random[0]),
                static_cast<unsigned long long>(random[1]));

  File memory(memfd_create("simgpu-nccl", MFD_CLOEXEC)), listening = new_socket();
  const Address address(name_of(id));
  if (!memory || !listening || ftruncate(memory.get(), sizeof(Header)) != 0 ||
      bind(listening.get(), address.get(), address.bytes) != 0 ||
      listen(listening.get(), max_ranks) != 0) {
    return false;
  }
  std::thread([listening = std::move(listening), memory = std::move(memory)] {
    hand_out(listening, memory);
  }).detach();
  return true;
}

bool looks_made(const ncclUniqueId& id) {
  return name_of(id).starts_with(prefix) && name_of(id).size() == prefix.size() + 32;
}

File fetch_memory(const ncclUniqueId& id, int ranks, const std::function<bool()>& give_up) {
  const File maker = new_socket();
  const Address address(name_of(id));
  const std::int32_t told = ranks;
  if (!maker || connect(maker.get(), address.get(), address.bytes) != 0 ||
      send(maker.get(), &told, sizeof told, MSG_NOSIGNAL) != sizeof told) {
    return File();
  }
  pollfd answer{maker.get(), POLLIN, 0};
  while (!give_up()) {
    if (poll(&answer, 1, nap_milliseconds) > 0) return receive_file(maker.get());
  }
  return File();
}

}  // namespace simgpu::nccl
