// What needs no ranks: the order of devices, cycles of waiting, the clock of a simulated link.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/errors.hpp"
#include "common/mpi/devices.hpp"
#include "common/mpi/launcher.hpp"
#include "common/mpi/link.hpp"
#include "common/mpi/waits.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_of.hpp"

namespace ddp::mpi {
namespace {

using Catch::Matchers::Contains;
using Edges = std::vector<std::vector<int>>;

TEST_CASE("EN-03 (d): global ranks 4 to 7 with local ranks 0 to 3 and 8 devices: devices 0 to 3") {
  for (int local_rank = 0; local_rank < 4; ++local_rank) {
    const ScopedVariable rank("OMPI_COMM_WORLD_RANK", std::to_string(local_rank + 4));
    const ScopedVariable local("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank));
    CHECK(launcher_rank() == local_rank + 4);
    CHECK(device_of(launcher_local_rank().value(), 8) == local_rank);
  }
}

TEST_CASE("One visible device is number 0 for everybody; beyond the last there is none") {
  CHECK(device_of(3, 1) == 0);
  CHECK(device_of(1, 2) == 1);
  CHECK_FALSE(device_of(2, 2).has_value());
  CHECK_FALSE(device_of(0, 0).has_value());
}

TEST_CASE("The launcher's variables: MPI's own before Slurm's, nonsense is none") {
  const ScopedVariable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK", std::nullopt);
  const ScopedVariable intel("MPI_LOCALRANKID", std::nullopt);
  const ScopedVariable slurm("SLURM_LOCALID", std::nullopt);
  CHECK_FALSE(launcher_local_rank().has_value());
  {
    const ScopedVariable set("SLURM_LOCALID", "5");
    CHECK(launcher_local_rank() == 5);
    const ScopedVariable stronger("MPI_LOCALRANKID", "2");
    CHECK(launcher_local_rank() == 2);
  }
  for (const char* nonsense : {"", "-1", "two", "1 "}) {
    const ScopedVariable set("OMPI_COMM_WORLD_LOCAL_RANK", nonsense);
    CHECK_FALSE(launcher_local_rank().has_value());
  }
}

RankDevice rank_on(const std::string& host, int local_rank, int device, const std::string& uuid) {
  RankDevice one;
  std::copy(host.begin(), host.end(), one.host.begin());
  std::copy(uuid.begin(), uuid.end(), one.uuid.begin());
  one.local_rank = one.launcher_local_rank = local_rank;
  one.visible_devices = std::max(1, device + 1);
  one.device = device;
  return one;
}

TEST_CASE("Ranks with a device each are fine, also where hosts have equal UUIDs or each sees one") {
  const std::vector<RankDevice> two_hosts = {rank_on("a", 0, 0, "x"), rank_on("a", 1, 1, "y"),
                                             rank_on("b", 0, 0, "x"), rank_on("b", 1, 1, "y")};
  CHECK_FALSE(device_error(two_hosts, false).has_value());
  const std::vector<RankDevice> slurm = {rank_on("a", 0, 0, "x"), rank_on("a", 1, 0, "y")};
  CHECK_FALSE(device_error(slurm, false).has_value());
}

TEST_CASE("Two ranks on one device of a host are refused, but where they may share it") {
  const std::vector<RankDevice> ranks = {rank_on("a", 0, 0, "x"), rank_on("b", 0, 0, "y"),
                                         rank_on("b", 1, 0, "z"), rank_on("b", 2, 0, "y")};
  const std::string error = device_error(ranks, false).value_or("");
  CHECK_THAT(error, Contains("ranks 1 and 3") && Contains("host b") && Contains("y:") &&
                        Contains("requires at least 3 physical GPUs; found 2") &&
                        Contains("--share-device"));
  CHECK_FALSE(device_error(ranks, true).has_value());
}

TEST_CASE("A rank without a device, with another's local rank or with an error is named") {
  std::vector<RankDevice> ranks = {rank_on("a", 0, 0, "x"), rank_on("a", 1, 1, "y"),
                                   rank_on("a", 2, -1, "")};
  for (RankDevice& one : ranks) one.visible_devices = 2;
  CHECK_THAT(device_error(ranks, false).value_or(""),
             Contains("no GPU of host a is left for rank 2") &&
                 Contains("requires at least 3 physical GPUs; found 2") && Contains("-n 2"));
  for (RankDevice& one : ranks) one.simulated = true;
  CHECK_THAT(device_error(ranks, false).value_or(""),
             Contains("3 simulated GPUs; found 2") && Contains("SIMGPU_DEVICES"));
  ranks[1].launcher_local_rank = 0;
  CHECK_THAT(device_error(ranks, true).value_or(""),
             Contains("rank 1") && Contains("says local rank 0") && Contains("MPI counts 1"));
  const std::string text = "no CUDA device is visible";
  std::copy(text.begin(), text.end(), ranks[0].error.begin());
  CHECK(device_error(ranks, true) == "rank 0 on host a: no CUDA device is visible");
}

TEST_CASE("find_cycle finds a cycle of any length, and none where there is none") {
  CHECK(find_cycle(Edges{}).empty());
  CHECK(find_cycle(Edges{{1}, {2}, {}}).empty());
  CHECK(find_cycle(Edges{{1, 2}, {3}, {3}, {}}).empty());  // two ways to one node are no cycle
  CHECK(find_cycle(Edges{{1}, {0}}) == std::vector{0, 1});
  CHECK(find_cycle(Edges{{1}, {2}, {0}}) == std::vector{0, 1, 2});
  CHECK(find_cycle(Edges{{2}, {}, {4}, {2}, {3}}) == std::vector{2, 4, 3});  // 0 only leads there
  CHECK(find_cycle(Edges{{}, {1}}) == std::vector{1});
  CHECK(find_cycle(Edges{{-1, 7, 1}, {}}).empty());  // peers that are not here
}

RankCall in_call(int rank, CallKind kind, int peer, std::int64_t collectives = 0) {
  RankCall one{rank, {}};
  one.call.step = 3;
  one.call.kind = kind;
  one.call.peer = peer;
  one.call.bytes = 40;
  one.call.collectives = collectives;
  one.call.waiting = true;
  one.call.seconds = 2;
  return one;
}

TEST_CASE("waits_for: a message's peer; in a collective, those that have begun fewer") {
  std::vector<RankCall> calls = {
      in_call(0, CallKind::barrier, everyone, 5), in_call(1, CallKind::receive, 0, 4),
      in_call(2, CallKind::barrier, everyone, 5), in_call(3, CallKind::barrier, everyone, 5)};
  calls[3].call.waiting = false;  // it is through already
  CHECK(waits_for(calls) == Edges{{1}, {0}, {1}, {}});
}

TEST_CASE("The diagnosis names each rank's call, and the cycle or who is missing") {
  std::vector<RankCall> calls = {in_call(0, CallKind::receive, 1),
                                 in_call(1, CallKind::wait_send, 2),
                                 in_call(2, CallKind::receive, 0)};
  CHECK(diagnosis(calls) ==
        "  rank 0: step 3, waiting for 2.0 s to receive 40 bytes from rank 1\n"
        "  rank 1: step 3, waiting for 2.0 s to send 40 bytes to rank 2\n"
        "  rank 2: step 3, waiting for 2.0 s to receive 40 bytes from rank 0\n"
        "  deadlock: 0 waits for 1 waits for 2 waits for 0\n");
  calls[2].call.waiting = false;
  CHECK_THAT(diagnosis(calls), Contains("  rank 2: step 3, in no call for 2.0 s\n") &&
                                   Contains("  missing: rank 2;") && !Contains("deadlock"));
  calls.pop_back();
  CHECK_THAT(diagnosis(calls), Contains("  missing: rank 2, on another host"));
}

TEST_CASE("A record shows the call under way and the one that was") {
  CallRecord record{};
  CHECK(text_of(record.read()) == "in no call so far");
  record.set_step(7);
  record.begin(CallKind::all_gather, everyone, 12);
  CHECK(record.read().waiting);
  CHECK(record.read().collectives == 1);
  CHECK(record.read().sequence == 1);
  record.end();
  record.begin(CallKind::send, 2, 80);
  CHECK(record.read().sequence == 2);
  CHECK(record.read().collectives == 1);
  CHECK(record.read().peer == 2);
  record.end();
  CHECK_FALSE(record.read().waiting);
  CHECK(record.read().bytes == 80);
  CHECK(record.read().step == 7);
}

TEST_CASE("SIMGPU_LINK takes GB/s,us and refuses anything else by name") {
  const LinkSpeed speed = parse_link("1.5,20");
  CHECK(speed.bytes_per_second == 1.5e9);
  CHECK(speed.latency_seconds == 20 * 1e-6);
  for (const char* bad : {"", "1", "1;2", "1,2,3", "0,1", "-1,1", "1,-1", "1,", ",1", "fast,1",
                          "1,nan", "inf,1", " 1,1", "1,1us", "1e-9,1", "1,1e9"}) {
    const std::string error = error_of<OptionError>([&] { parse_link(bad); });
    CHECK_THAT(error, Contains("SIMGPU_LINK is '" + std::string(bad) + "'"));
  }
}

// 1 GB/s and 1 ms, in numbers that a double holds exactly: 2^30 bytes/s and 2^-10 s.
constexpr LinkSpeed exact_speed{1073741824.0, 0.0009765625};
constexpr std::int64_t one_mib = 1 << 20;  // takes 2^-10 s

TEST_CASE("A lone message takes latency + bytes / bandwidth") {
  LinkClock sender(exact_speed);
  LinkClock receiver(exact_speed);
  const auto [start, left] = sender.send(10 * one_mib);
  CHECK(start == 0);
  CHECK(left == 10 * exact_speed.latency_seconds);
  CHECK(receiver.receive(start, 10 * one_mib) == 11 * exact_speed.latency_seconds);
}

TEST_CASE("Messages leave in a row and arrive in a row") {
  const double unit = exact_speed.latency_seconds;
  LinkClock sender(exact_speed);
  CHECK(sender.send(one_mib).start == 0);
  CHECK(sender.send(2 * one_mib).start == unit);  // behind the first
  sender.advance_to(10 * unit);
  CHECK(sender.send(one_mib).start == 10 * unit);  // the link was idle
  sender.advance_to(5 * unit);
  CHECK(sender.now() == 10 * unit);

  LinkClock root(exact_speed);  // three ranks send to it at once
  CHECK(root.receive(0, one_mib) == 2 * unit);
  CHECK(root.receive(0, one_mib) == 3 * unit);
  CHECK(root.receive(0, one_mib) == 4 * unit);
  CHECK(root.receive(20 * unit, one_mib) == 22 * unit);  // no row to stand in
}

}  // namespace
}  // namespace ddp::mpi
