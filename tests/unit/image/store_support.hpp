#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/image/image.hpp"
#include "ate/util/failpoint.hpp"
#include "oci_builder.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"
#include "tree_support.hpp"

namespace ate::test {

inline image::Reference reference(const std::string& text) {
  Result<image::Reference> parsed = image::parse_reference(text);
  REQUIRE(parsed);
  return *parsed;
}

/// ATE_FAILPOINT for the helpers that start while this lives. All names used here are the helper's
/// own, so this process never stops at one.
class ArmedFailpoint {
 public:
  explicit ArmedFailpoint(const char* value) { ::setenv("ATE_FAILPOINT", value, 1); }

  ~ArmedFailpoint() { disarm(); }

  ArmedFailpoint(const ArmedFailpoint&) = delete;
  ArmedFailpoint& operator=(const ArmedFailpoint&) = delete;
  ArmedFailpoint(ArmedFailpoint&&) = delete;
  ArmedFailpoint& operator=(ArmedFailpoint&&) = delete;

  static void disarm() { ::unsetenv("ATE_FAILPOINT"); }
};

inline bool have_failpoints() {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
  }
  return failpoints_enabled();
}

/// A store on a directory of its own, as the daemon has one.
struct StoreBench {
  TempDir dir;
  std::string directory = dir.file("images");
  std::chrono::seconds limit{60};

  StoreBench() = default;

  /// Runs `use(store, reaper, context)` on a fresh loop.
  void run(
      std::function<async::Task<void>(image::Store&, async::Reaper&, async::Context&)> use) const {
    run_coro([&](async::Context& context) { return with_store(context, *this, use); });
  }

  static async::Task<void> with_store(
      async::Context& context, const StoreBench& bench,
      const std::function<async::Task<void>(image::Store&, async::Reaper&, async::Context&)>& use) {
    async::Reaper reaper(context);
    image::Store::Options options;
    options.directory = bench.directory;
    options.helper = ATE_TEST_IMAGE_HELPER;
    options.unpack_timeout = bench.limit;
    image::Store store(context, reaper, options);
    const Status prepared = store.prepare();
    REQUIRE(prepared);
    co_await use(store, reaper, context);
  }

  /// Names in the store: what is no image and no `sha256` is a leftover.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& item : std::filesystem::directory_iterator(directory)) {
      if (item.path().filename() != "sha256") {
        found.push_back(item.path().filename());
      }
    }
    for (const auto& item : std::filesystem::directory_iterator(directory + "/sha256")) {
      found.push_back(item.path().filename());
    }
    return found;
  }
};

/// A child of this process in state `state` (T = stopped), 0 when there is none.
inline pid_t child_in_state(char state) {
  for (const auto& item : std::filesystem::directory_iterator("/proc")) {
    const std::string name = item.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    const std::string stat = read_file(item.path().string() + "/stat");
    const std::size_t end = stat.rfind(')');
    if (end == std::string::npos || end + 4 >= stat.size()) {
      continue;
    }
    const pid_t parent = static_cast<pid_t>(std::strtol(stat.c_str() + end + 4, nullptr, 10));
    if (parent == ::getpid() && stat[end + 2] == state) {
      return static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    }
  }
  return 0;
}

/// Waits (polling /proc) for a stopped child.
inline async::Task<pid_t> stopped_child() {
  constexpr std::chrono::milliseconds kPoll(2);
  for (int i = 0; i < 4000; ++i) {
    const pid_t pid = child_in_state('T');
    if (pid != 0) {
      co_return pid;
    }
    co_await async::sleep_for(kPoll);
  }
  co_return 0;
}

inline std::string big_tar() {
  return TarWriter()
      .dir("bin")
      .file("bin/sh", "#!", 0755)
      .file("data", std::string(300'000, 'x'))
      .finish();
}

/// Writes a sealed image as archive; its digest.
inline std::string make_archive(const std::string& path) {
  OciBuilder builder;
  std::string digest = builder.layer(big_tar(), "gzip")
                           .layer(TarWriter().file("second", "2").finish(), "zstd")
                           .seal();
  test::write_file(path, builder.archive());
  return digest;
}

struct Outcome {
  bool done = false;
  Result<image::Unpacked> image = fail(Errc::Internal, "not run");
};

inline async::Task<void> ensure_into(image::Store& store, image::Reference from, std::string digest,
                                     std::shared_ptr<Outcome> out) {
  out->image = co_await store.ensure(from, digest);
  out->done = true;
}

inline void no_escape(const std::string& name, const std::string& what) {
  FAIL_CHECK(name << ": " << what);
}

}  // namespace ate::test
