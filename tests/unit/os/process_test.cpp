#include "ate/os/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace ate;

namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return Pipe{UniqueFd(std::move(ends[0])), UniqueFd(std::move(ends[1]))};
}

std::string read_all(const UniqueFd& fd) {
  std::string out;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(fd.get(), buffer.data(), buffer.size());
    out.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  return out;
}

siginfo_t wait_for(const UniqueFd& pidfd) {
  siginfo_t info{};
  REQUIRE(::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED) == 0);
  return info;
}

os::SpawnPlan shell(const std::string& script) {
  os::SpawnPlan plan;
  plan.executable = "/bin/sh";
  plan.argv = {"sh", "-c", script};
  plan.env = {"PATH=/usr/bin:/bin"};
  return plan;
}

/// What `script` wrote to its standard output.
std::string output_of(os::SpawnPlan plan) {
  Pipe pipe = make_pipe();
  plan.fds.emplace_back(pipe.write.get(), 1);
  const Result<os::Process> process = os::spawn(plan);
  REQUIRE(process);
  pipe.write.reset();
  std::string out = read_all(pipe.read);
  REQUIRE(wait_for(process->pidfd).si_code == CLD_EXITED);
  return out;
}

}  // namespace

TEST_CASE("spawn: arguments, environment and working directory are exactly what was asked for") {
  os::SpawnPlan plan =
      shell("printf '%s|' \"$0\" \"$@\"; pwd; env | grep -v '^_=\\|^PWD=\\|^SHLVL=' | sort");
  plan.argv = {"sh", "-c", plan.argv[2], "zero", "", "two words"};
  plan.env = {"A=1", "B=x y"};
  plan.env.emplace_back("PATH=/usr/bin:/bin");
  plan.working_dir = "/usr";
  REQUIRE(output_of(plan) == "zero||two words|/usr\nA=1\nB=x y\nPATH=/usr/bin:/bin\n");
}

TEST_CASE("spawn: nothing but the allow-list is open in the child") {
  const UniqueFd leak(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC on purpose
  REQUIRE(leak);
  const std::string out = output_of(shell("cd /proc/self/fd && echo *"));
  // 3 (or so) is the shell's own opening of the directory for the glob.
  REQUIRE(out.substr(0, 5) == "0 1 2");
  REQUIRE(out.size() <= 8);
}

TEST_CASE("spawn: standard streams that were not named are /dev/null") {
  REQUIRE(output_of(shell("readlink /proc/self/fd/0 /proc/self/fd/2")) == "/dev/null\n/dev/null\n");
}

TEST_CASE("spawn: descriptors may be permuted, also onto each other's numbers") {
  Pipe a = make_pipe();
  Pipe b = make_pipe();
  os::SpawnPlan plan = shell("echo to-a >&$A; echo to-b >&$B");
  // a's number in the child is b's here, and the other way round.
  const int low = std::min(a.write.get(), b.write.get());
  const int high = std::max(a.write.get(), b.write.get());
  REQUIRE(high <= 9);  // the shell takes one digit only
  plan.fds = {{low, high}, {high, low}};
  const bool a_is_low = a.write.get() == low;
  plan.env.push_back("A=" + std::to_string(a_is_low ? high : low));
  plan.env.push_back("B=" + std::to_string(a_is_low ? low : high));
  const Result<os::Process> process = os::spawn(plan);
  REQUIRE(process);
  a.write.reset();
  b.write.reset();
  REQUIRE(read_all(a.read) == "to-a\n");
  REQUIRE(read_all(b.read) == "to-b\n");
  REQUIRE(wait_for(process->pidfd).si_status == 0);
}

TEST_CASE("spawn: ignored and blocked signals of ours are neither in the child") {
  struct sigaction before{};
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  REQUIRE(::sigaction(SIGPIPE, &ignore, &before) == 0);
  sigset_t block;
  sigset_t mask_before;
  sigemptyset(&block);
  sigaddset(&block, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &block, &mask_before);
  const std::string out = output_of(shell("grep -E 'SigBlk|SigIgn' /proc/self/status"));
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  REQUIRE(::sigaction(SIGPIPE, &before, nullptr) == 0);
  REQUIRE(out == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("spawn: what can't be executed is an error with its errno, and leaves no child") {
  os::SpawnPlan plan = shell("");
  SECTION("missing") {
    plan.executable = "/nonexistent/program";
    const Result<os::Process> process = os::spawn(plan);
    REQUIRE_FALSE(process);
    REQUIRE(process.error().sys_errno() == ENOENT);
    REQUIRE(process.error().message() == "execute /nonexistent/program: No such file or directory");
  }
  SECTION("not executable") {
    plan.executable = "/etc/passwd";
    const Result<os::Process> process = os::spawn(plan);
    REQUIRE_FALSE(process);
    REQUIRE(process.error().sys_errno() == EACCES);
  }
  SECTION("no such directory") {
    plan.working_dir = "/nonexistent";
    const Result<os::Process> process = os::spawn(plan);
    REQUIRE_FALSE(process);
    REQUIRE(process.error().message().find("working directory") != std::string::npos);
  }
  SECTION("no such descriptor") {
    plan.fds = {{-1, 5}};
    const Result<os::Process> process = os::spawn(plan);
    REQUIRE_FALSE(process);
    REQUIRE(process.error().sys_errno() == EBADF);
  }
  siginfo_t info{};
  REQUIRE(::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == -1);
  REQUIRE(errno == ECHILD);
}

// The service protects the daemon (OOMScoreAdjust=-900): its actors must not outlive the rest of
// the host when memory runs out.
TEST_CASE("spawn: our own protection from the OOM killer does not reach the child") {
  const auto set = [](const char* value) {
    const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    return ::write(file.get(), value, std::strlen(value)) > 0;
  };
  REQUIRE(set("500"));
  const std::string child = output_of(shell("cat /proc/self/oom_score_adj"));
  const std::string own = output_of(shell("cat /proc/$PPID/oom_score_adj"));
  REQUIRE(set("0"));
  CHECK(child == "0\n");
  CHECK(own == "500\n");
}

TEST_CASE("spawn: a session of its own unless told otherwise") {
  os::SpawnPlan plan = shell("cut -d' ' -f6 /proc/$$/stat; echo $$");
  const std::string own = output_of(plan);
  REQUIRE(own.substr(0, own.find('\n')) == own.substr(own.find('\n') + 1, own.find('\n')));
  plan.new_session = false;
  const std::string shared = output_of(plan);
  REQUIRE(shared.substr(0, shared.find('\n')) == std::to_string(::getsid(0)));
}

TEST_CASE("spawn: die_with_parent ends the child with the thread that made it") {
  Pipe stays = make_pipe();
  os::SpawnPlan plan = shell("read line");
  plan.fds = {{stays.read.get(), 0}};
  plan.die_with_parent = true;
  Result<os::Process> process = fail(Errc::Internal, "not run");
  std::thread maker([&] { process = os::spawn(plan); });
  maker.join();
  REQUIRE(process);
  const siginfo_t info = wait_for(process->pidfd);
  REQUIRE(info.si_code == CLD_KILLED);
  REQUIRE(info.si_status == SIGKILL);
}

TEST_CASE("spawn: many threads at once, each child is its own") {
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::array<int, kThreads> good{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &good] {
      for (int i = 0; i < kEach; ++i) {
        const Result<os::Process> process = os::spawn(shell("exit " + std::to_string(t)));
        siginfo_t info{};
        if (process &&
            ::waitid(P_PIDFD, static_cast<id_t>(process->pidfd.get()), &info, WEXITED) == 0 &&
            info.si_status == t && process->id.start_time != 0) {
          ++good[static_cast<std::size_t>(t)];
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const int count : good) {
    REQUIRE(count == kEach);
  }
}

TEST_CASE("spawn: leaves no descriptor and no mapping behind") {
  auto count_fds = [] {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd) {
      count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return count;
  };
  const int before = count_fds();
  for (int i = 0; i < 20; ++i) {
    const Result<os::Process> process = os::spawn(shell("exit 0"));
    REQUIRE(process);
    wait_for(process->pidfd);
    os::SpawnPlan missing = shell("");
    missing.executable = "/nonexistent";
    REQUIRE_FALSE(os::spawn(missing));
  }
  REQUIRE(count_fds() == before);
}

TEST_CASE("process identity: pid and start time find it again, another start time does not") {
  Pipe stays = make_pipe();
  os::SpawnPlan plan = shell("read line");
  plan.fds = {{stays.read.get(), 0}};
  Result<os::Process> process = os::spawn(plan);
  REQUIRE(process);
  REQUIRE(process->id.start_time == os::process_start_time(process->id.pid).value());
  const Result<UniqueFd> again = os::open_process(process->id);
  REQUIRE(again);
  os::ProcessId other = process->id;
  other.start_time += 1;
  const Result<UniqueFd> wrong = os::open_process(other);
  REQUIRE_FALSE(wrong);
  REQUIRE(wrong.error().code() == Errc::NotFound);
  REQUIRE(os::send_signal(*again, SIGTERM));
  const siginfo_t info = wait_for(process->pidfd);
  REQUIRE(info.si_status == SIGTERM);
  REQUIRE(os::send_signal(*again, SIGTERM));
  REQUIRE(os::open_process(process->id).error().code() == Errc::NotFound);
  REQUIRE(os::process_start_time(process->id.pid).error().code() == Errc::NotFound);
}
