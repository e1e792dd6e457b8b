#include "ate/async/reaper.hpp"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ate/util/fd.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"

using namespace ate;
using namespace ate::async;
using namespace std::chrono_literals;

namespace {

// Plain fork is right here: what is tested is reaping, not os::spawn.
pid_t child_that_exits(int code) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(code);
  }
  return pid;
}

pid_t child_that_sleeps() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    while (true) {
      ::pause();
    }
  }
  return pid;
}

/// A sleeping child with the number `pid`; -1 where that is not allowed.
pid_t child_with_pid(pid_t pid) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<std::uint64_t>(&pid);
  args.set_tid_size = 1;
  const long child = ::syscall(SYS_clone3, &args, sizeof args);
  if (child == 0) {
    while (true) {
      ::pause();
    }
  }
  return static_cast<pid_t>(child);
}

/// Forks a child that forks a grandchild and ends at once; returns the grandchild's pid. It ends
/// with `code` when `release` is closed by all its writers.
pid_t orphan_that_exits(int code, int release_read, int release_write, pid_t& parent) {
  std::array<int, 2> report{};
  REQUIRE(::pipe(report.data()) == 0);
  parent = ::fork();
  if (parent == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::close(release_write);
      char byte = 0;
      static_cast<void>(::read(release_read, &byte, 1));
      ::_exit(code);
    }
    static_cast<void>(::write(report[1], &grandchild, sizeof grandchild));
    ::_exit(0);
  }
  pid_t grandchild = 0;
  REQUIRE(::read(report[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  ::close(report[0]);
  ::close(report[1]);
  return grandchild;
}

Task<void> wait_and_count(Reaper& reaper, pid_t pid, int& count) {
  const ChildExit exit = co_await reaper.wait(pid);
  count += exit.code;
}

}  // namespace

TEST_CASE("reaper: a child that ends after watch, by exit and by signal") {
  auto body = [](Context& context) -> Task<void> {
    Reaper reaper(context);
    const pid_t exits = child_that_exits(7);
    reaper.watch(exits);
    const ChildExit by_exit = co_await reaper.wait(exits);
    REQUIRE(by_exit.code == 7);
    REQUIRE(by_exit.signal == 0);
    const pid_t killed = child_that_sleeps();
    reaper.watch(killed);
    REQUIRE(::kill(killed, SIGKILL) == 0);
    const ChildExit by_signal = co_await reaper.wait(killed);
    REQUIRE(by_signal.signal == SIGKILL);
    REQUIRE(reaper.reaped() == 2);
    REQUIRE(::kill(killed, 0) != 0);
  };
  test::run_coro(body);
}

TEST_CASE("reaper: a child that was reaped before anybody asked") {
  auto body = [](Context& context) -> Task<void> {
    Reaper reaper(context);
    const pid_t first = child_that_exits(3);
    const pid_t second = child_that_exits(4);
    // Reaping the second shows that the first is gone or kept by then.
    const ChildExit of_second = co_await reaper.wait(second);
    REQUIRE(of_second.code == 4);
    const ChildExit of_first = co_await reaper.wait(first);
    REQUIRE(of_first.code == 3);
    const ChildExit again = co_await reaper.wait(first);
    REQUIRE(again.code == 3);
    reaper.forget(first);
  };
  test::run_coro(body);
}

TEST_CASE("reaper: a child that ended before the reaper began") {
  auto body = [](Context& context) -> Task<void> {
    const pid_t pid = child_that_exits(5);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
    Reaper reaper(context);
    REQUIRE(reaper.reaped() == 1);
    const ChildExit exit = co_await reaper.wait(pid);
    REQUIRE(exit.code == 5);
  };
  test::run_coro(body);
}

TEST_CASE("reaper: orphaned grandchildren come to us") {
  auto body = [](Context& context) -> Task<void> {
    Reaper reaper(context);
    std::array<int, 2> release{};
    REQUIRE(::pipe(release.data()) == 0);
    UniqueFd release_read(std::move(release[0]));
    UniqueFd release_write(std::move(release[1]));
    pid_t parent = 0;
    const pid_t orphan = orphan_that_exits(9, release_read.get(), release_write.get(), parent);
    reaper.watch(orphan);
    const ChildExit of_parent = co_await reaper.wait(parent);
    REQUIRE(of_parent.code == 0);
    release_write.reset();
    const ChildExit exit = co_await reaper.wait(orphan);
    REQUIRE(exit.code == 9);
    REQUIRE(reaper.reaped() == 2);
  };
  test::run_coro(body);
}

TEST_CASE("reaper: many waiters of one pid, a cancelled one among them") {
  int sum = 0;
  auto body = [&](Context& context) -> Task<void> {
    Reaper reaper(context);
    TaskScope cancelled(context, [](const std::string&, const std::string&) {});
    TaskScope kept(context, [](const std::string&, const std::string&) {});
    std::array<int, 2> release{};
    REQUIRE(::pipe(release.data()) == 0);
    UniqueFd release_read(std::move(release[0]));
    UniqueFd release_write(std::move(release[1]));
    pid_t parent = 0;
    const pid_t pid = orphan_that_exits(1, release_read.get(), release_write.get(), parent);
    cancelled.spawn("cancelled", wait_and_count(reaper, pid, sum));
    for (int i = 0; i < 5; ++i) {
      kept.spawn("kept", wait_and_count(reaper, pid, sum));
    }
    co_await sleep_for(1ms);
    co_await cancelled.close();
    release_write.reset();
    const bool drained = co_await kept.drain(std::chrono::hours(1));
    REQUIRE(drained);
  };
  test::run_coro(body);
  REQUIRE(sum == 5);
}

TEST_CASE("reaper: two hundred children at once, each told apart") {
  auto body = [](Context& context) -> Task<void> {
    Reaper reaper(context);
    std::vector<pid_t> pids;
    for (int i = 0; i < 200; ++i) {
      pids.push_back(child_that_exits(i));
    }
    for (int i = 0; i < 200; ++i) {
      const ChildExit exit = co_await reaper.wait(pids[static_cast<std::size_t>(i)]);
      REQUIRE(exit.code == i);
    }
    REQUIRE(reaper.reaped() == 200);
  };
  test::run_coro(body);
}

TEST_CASE("reaper: the kept end of an old process is not taken for that of a live one") {
  auto body = [](Context& context) -> Task<void> {
    Reaper reaper(context);
    const pid_t old = child_that_exits(1);
    const ChildExit marker = co_await reaper.wait(child_that_exits(2));
    REQUIRE(marker.code == 2);
    // The number is free for good an RCU grace period after it was reaped.
    pid_t reused = child_with_pid(old);
    for (int tries = 0; tries < 1000 && reused < 0 && errno == EEXIST; ++tries) {
      ::sched_yield();
      reused = child_with_pid(old);
    }
    if (reused < 0) {
      WARN("clone3 with set_tid is refused here: " << std::strerror(errno));
      co_return;
    }
    REQUIRE(reused == old);
    reaper.watch(old);
    REQUIRE(::kill(old, SIGKILL) == 0);
    const ChildExit exit = co_await reaper.wait(old);
    REQUIRE(exit.signal == SIGKILL);
  };
  test::run_coro(body);
}
