// What sealing a snapshot costs beyond the plain fsync of its payload, and what the page cache is
// worth to the resume that follows.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/util/fd.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPages = std::size_t{96} << 20U;  // of a small Python actor under gVisor
constexpr int kRounds = 9;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// As runsc leaves it: one large file, two small ones, nothing synced.
void write_payload(const std::string& directory, int round) {
  std::string pages(kPages, '\0');
  for (std::size_t i = 0; i < pages.size(); i += 64) {
    pages[i] = static_cast<char>(i / 64 + static_cast<std::size_t>(round));
  }
  test::write_file(directory + "/pages.img", pages);
  test::write_file(directory + "/pages_meta.img", std::string(20'000, 'm'));
  test::write_file(directory + "/checkpoint.img", std::string(300'000, 'c'));
}

double plain_fsync(const std::string& directory) {
  const Clock::time_point start = Clock::now();
  for (const char* name : {"/checkpoint.img", "/pages.img", "/pages_meta.img"}) {
    const UniqueFd fd(::open((directory + name).c_str(), O_RDONLY | O_CLOEXEC));
    if (::fsync(fd.get()) != 0) {
      std::exit(1);
    }
  }
  return ms_since(start);
}

double read_all(const std::string& path, bool cold) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (cold) {
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
  }
  std::vector<char> buffer(1U << 20U);
  const Clock::time_point start = Clock::now();
  while (::read(fd.get(), buffer.data(), buffer.size()) > 0) {
  }
  return ms_since(start);
}

struct Figures {
  std::vector<double> plain, seal, open, verify, cached, cold;
};

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
  }
  return std::move(*result);
}

async::Task<void> round(artifacts::SnapshotStore& store, std::string base, int number,
                        Figures& figures) {
  const std::string plain = base + "/plain";
  std::filesystem::create_directory(plain);
  write_payload(plain, number);
  figures.plain.push_back(plain_fsync(plain));
  std::filesystem::remove_all(plain);

  auto begun = co_await store.begin("s1");
  write_payload(must(std::move(begun)), number);
  Clock::time_point start = Clock::now();
  auto manifest = std::make_shared<v1alpha1::SnapshotManifest>();
  auto sealed = co_await store.seal("s1", manifest);
  figures.seal.push_back(ms_since(start));
  start = Clock::now();
  auto opened = co_await store.open("s1", must(std::move(sealed)).manifest_sha256);
  figures.open.push_back(ms_since(start));
  start = Clock::now();
  const Status verified = co_await store.verify_payload(must(std::move(opened)));
  figures.verify.push_back(ms_since(start));
  if (!verified) {
    std::exit(1);
  }
  figures.cached.push_back(read_all(base + "/snapshots/s1/pages.img", false));
  figures.cold.push_back(read_all(base + "/snapshots/s1/pages.img", true));
  const Status removed = co_await store.remove("s1");
  static_cast<void>(removed);
}

}  // namespace

int main() {
  const test::TempDir dir;
  boost::asio::io_context loop(1);
  boost::asio::thread_pool pool(2);
  async::Context context{loop, pool};
  artifacts::SnapshotStore::Options options;
  options.directory = dir.file("snapshots");
  artifacts::SnapshotStore store(context, options);
  if (!store.prepare()) {
    return 1;
  }
  Figures figures;
  for (int i = 0; i < kRounds; ++i) {
    boost::asio::co_spawn(loop, round(store, dir.path(), i, figures), [](std::exception_ptr error) {
      if (error) {
        std::rethrow_exception(error);
      }
    });
    loop.run();
    loop.restart();
  }
  const double plain = median(figures.plain);
  const double seal = median(figures.seal);
  std::printf("fsync of the payload: %7.1f ms\n", plain);
  std::printf("seal:                 %7.1f ms  (%+.1f ms)\n", seal, seal - plain);
  std::printf("open:                 %7.2f ms\n", median(figures.open));
  std::printf("verify, cached:       %7.1f ms\n", median(figures.verify));
  std::printf("read, cached:         %7.1f ms\n", median(figures.cached));
  std::printf("read, cold:           %7.1f ms\n", median(figures.cold));
  return 0;
}
