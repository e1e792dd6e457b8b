// The daemon's part of an unpack without the daemon: `unpack-helper` as the daemon dispatches it,
// and `ensure DIRECTORY REFERENCE`, a whole process that a test may kill at a failpoint.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdio>
#include <exception>
#include <string_view>

#include "ate/image/image.hpp"

namespace {

using namespace ate;

async::Task<int> ensure(async::Context& context, std::string directory, std::string text) {
  async::Reaper reaper(context);
  image::Store::Options options;
  options.directory = std::move(directory);
  options.helper = "/proc/self/exe";
  image::Store store(context, reaper, options);
  const Status prepared = store.prepare();
  const Result<image::Reference> reference = image::parse_reference(text);
  if (!prepared || !reference) {
    co_return 2;
  }
  Result<std::string> digest = co_await store.resolve(*reference);
  if (!digest) {
    std::fprintf(stderr, "%s\n", digest.error().message().c_str());
    co_return 1;
  }
  Result<image::Unpacked> unpacked = co_await store.ensure(*reference, *digest);
  if (!unpacked) {
    std::fprintf(stderr, "%s\n", unpacked.error().message().c_str());
    co_return 1;
  }
  std::printf("%s\n", unpacked->rootfs.c_str());
  co_return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "unpack-helper") {
    return ate::image::unpack_helper_main(argc, argv);
  }
  if (mode != "ensure" || argc != 4) {
    return 2;
  }
  int code = 3;
  boost::asio::thread_pool pool(2);
  boost::asio::io_context loop(1);
  ate::async::Context context{loop, pool};
  boost::asio::co_spawn(loop, ensure(context, argv[2], argv[3]),
                        [&](std::exception_ptr error, int result) { code = error ? 3 : result; });
  loop.run();
  pool.join();
  return code;
}
