// spec P-14, 4.5: what the unpack helper may do, seen from outside.
#include <memory>
#include <string>

#include "store_support.hpp"

using namespace ate;
using ate::image::Reference;
using ate::image::Store;
using ate::test::ArmedFailpoint;
using ate::test::ensure_into;
using ate::test::make_archive;
using ate::test::no_escape;
using ate::test::Outcome;
using ate::test::StoreBench;

TEST_CASE("helper: by hand it only says that it is not for hands") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(2);
    ::close(3);
    ::execl(ATE_TEST_IMAGE_HELPER, "image-helper", "unpack-helper", nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}

TEST_CASE("helper: while it unpacks it can do nothing else") {
  if (!test::have_failpoints()) {
    return;
  }
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper&, async::Context& context) -> async::Task<void> {
    const ArmedFailpoint armed("image-helper-confined=stall");
    async::TaskScope scope(context, no_escape);
    const auto outcome = std::make_shared<Outcome>();
    scope.spawn("ensure", ensure_into(store, archive, digest, outcome));
    const pid_t helper = co_await test::stopped_child();
    REQUIRE(helper != 0);
    const std::string proc = "/proc/" + std::to_string(helper);
    const std::string status = test::read_file(proc + "/status");
    const auto has = [&](const std::string& line) {
      CAPTURE(line);
      CHECK(status.find("\n" + line + "\n") != std::string::npos);
    };
    has("NoNewPrivs:\t1");
    has("Seccomp:\t2");
    has("Threads:\t1");
    // 0, 1, 2: request, answer, errors; the archive; the new root.
    CHECK(std::ranges::distance(std::filesystem::directory_iterator(proc + "/fd")) <= 5);
    if (::geteuid() == 0) {
      has("CapInh:\t0000000000000000");
      has("CapPrm:\t000000008800001b");  // CHOWN DAC_OVERRIDE FOWNER FSETID MKNOD SETFCAP
      has("CapEff:\t000000008800001b");
      has("CapAmb:\t0000000000000000");
      for (const char* kind : {"mnt", "net"}) {
        CHECK(std::filesystem::read_symlink(proc + "/ns/" + kind) !=
              std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind));
      }
      const std::string mounts = test::read_file(proc + "/mountinfo");
      CHECK(std::ranges::count(mounts, '\n') == 1);
      CHECK(mounts.find("nosuid,nodev,noexec") != std::string::npos);
    }
    ArmedFailpoint::disarm();
    REQUIRE(::kill(helper, SIGCONT) == 0);
    const bool drained = co_await scope.drain(std::chrono::seconds(8));
    CHECK(drained);
    co_await scope.close();
    CHECK(outcome->image);
  });
}
