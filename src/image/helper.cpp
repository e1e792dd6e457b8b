#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "ate/image/image.hpp"
#include "ate/util/failpoint.hpp"
#include "image/confine.hpp"
#include "image/limits.hpp"
#include "image/protocol.hpp"

namespace ate::image {

namespace {

constexpr std::size_t kMaxRequestBytes = 64 * 1024;

Result<std::string> read_request() {
  std::string text(kMaxRequestBytes, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(STDIN_FILENO, text.data() + filled, text.size() - filled);
    if (got < 0) {
      return fail(Error::from_errno("reading the request", errno));
    }
    if (got == 0) {
      break;
    }
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

Result<HelperReply> serve() {
  ATE_ASSIGN(const std::string text, read_request());
  ATE_ASSIGN(const HelperRequest request, parse_request(text));
  ConfineRequest wanted;
  wanted.source = UniqueFd(int{kSourceFd});
  wanted.source_is_directory = request.transport == Reference::Transport::OciDirectory;
  wanted.cpu_seconds = request.cpu_seconds;
  if (request.unpack) {
    wanted.destination = UniqueFd(int{kDestinationFd});
  }
  ATE_ASSIGN(Confined confined, confine(std::move(wanted)));
  static_cast<void>(failpoint("image-helper-confined"));

  HelperReply reply;
  reply.digest = request.digest;
  if (request.transport == Reference::Transport::DockerArchive) {
    ATE_ASSIGN(const std::unique_ptr<Layout> layout, open_archive(confined.source.get()));
    if (!request.unpack) {
      ATE_ASSIGN(reply.digest, resolve_docker(*layout, request.tag));
      return reply;
    }
    ATE_ASSIGN(reply.report,
               unpack_docker(*layout, request.digest, std::move(confined.destination)));
    return reply;
  }
  ATE_ASSIGN(const std::unique_ptr<Layout> layout,
             request.transport == Reference::Transport::OciArchive
                 ? open_archive_layout(confined.source.get())
                 : open_directory_layout(confined.source.get()));
  if (!request.unpack) {
    ATE_ASSIGN(reply.digest, resolve_digest(*layout, request.tag));
    return reply;
  }
  ATE_ASSIGN(reply.report, unpack_image(*layout, request.digest, std::move(confined.destination)));
  return reply;
}

Result<HelperReply> serve_without_exceptions() {
  try {
    return serve();
  } catch (const std::bad_alloc&) {
    return fail(Errc::ImageInvalid, "unpacking needs more than 2 GiB of memory");
  } catch (const std::exception& error) {
    return fail(Errc::Internal, error.what());
  }
}

bool write_answer(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        ::pwrite(STDOUT_FILENO, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count <= 0) {
      return false;
    }
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

int unpack_helper_main(int argc, char** /*argv*/) {
  struct stat info{};
  if (argc > 2 || ::fstat(kSourceFd, &info) != 0 || ::fstat(STDIN_FILENO, &info) != 0 ||
      !S_ISREG(info.st_mode)) {
    // IGNORED: where it can't be said, the exit code says it.
    static_cast<void>(
        std::fputs("unpack-helper is started by the daemon only, with descriptors\n", stderr));
    return 2;
  }
  const Result<HelperReply> reply = serve_without_exceptions();
  // SAFETY: _exit, because nothing that runs at exit is needed and a sanitizer's leak check wants
  // system calls that this process has given up.
  ::_exit(write_answer(write_reply(reply)) ? 0 : 1);
}

}  // namespace ate::image
