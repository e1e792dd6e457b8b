#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>

#include "fixture.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"

using namespace ate;
using namespace ate::test;
using std::chrono::milliseconds;

TEST_CASE("listen: mode and group are set, nothing else is left in the directory") {
  TempDir directory;
  const std::string path = directory.file("noded.sock");
  const Result<UniqueFd> listener = http::listen_unix(path, 0620, ::getegid());
  REQUIRE(listener);
  struct stat info{};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  CHECK(S_ISSOCK(info.st_mode));
  CHECK((info.st_mode & 07777) == 0620);
  CHECK(info.st_gid == ::getegid());
  const auto entries = std::filesystem::directory_iterator(directory.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
  CHECK(Client::connect(path).fd() >= 0);
}

TEST_CASE("listen: a stale socket is replaced, one that is served is not") {
  TempDir directory;
  const std::string path = directory.file("s");
  {
    const Result<UniqueFd> first = http::listen_unix(path, 0600, ::getegid());
    REQUIRE(first);
    const Result<UniqueFd> second = http::listen_unix(path, 0600, ::getegid());
    REQUIRE_FALSE(second);
    CHECK(second.error().code() == Errc::AlreadyExists);
  }
  CHECK(std::filesystem::exists(path));
  CHECK(http::listen_unix(path, 0600, ::getegid()));
}

TEST_CASE("listen: what is not a socket stays") {
  TempDir directory;
  const std::string path = directory.file("s");
  write_file(path, "precious");
  const Result<UniqueFd> refused = http::listen_unix(path, 0600, ::getegid());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::AlreadyExists);
  CHECK(read_file(path) == "precious");
}

TEST_CASE("listen: a symbolic link is not followed") {
  TempDir directory;
  const std::string real = directory.file("real");
  const std::string link = directory.file("link");
  std::filesystem::create_symlink(real, link);
  CHECK_FALSE(http::listen_unix(link, 0600, ::getegid()));
  CHECK_FALSE(std::filesystem::exists(real));
}

TEST_CASE("listen: a directory that everybody may write is refused") {
  TempDir directory;
  REQUIRE(::chmod(directory.path().c_str(), 0777) == 0);
  const Result<UniqueFd> refused = http::listen_unix(directory.file("s"), 0600, ::getegid());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::InvalidValue);
}

TEST_CASE("listen: paths of 107 bytes are taken, longer ones refused") {
  TempDir directory;
  const std::string prefix = directory.file("");
  const std::string longest = prefix + std::string(107 - prefix.size(), 's');
  CHECK(http::listen_unix(longest, 0600, ::getegid()));
  const Result<UniqueFd> refused = http::listen_unix(longest + "s", 0600, ::getegid());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::InvalidValue);
  CHECK_FALSE(http::listen_unix("", 0600, ::getegid()));
  CHECK_FALSE(http::listen_unix(directory.file("none/s"), 0600, ::getegid()));
}

namespace {

/// Probes a peer that sends `reply` and, if `close`, ends.
Result<int> probe(const std::string& reply, bool close, std::string& request) {
  std::pair<UniqueFd, UniqueFd> pair = socket_pair();
  Client peer(std::move(pair.second));
  peer.send(reply);
  if (close) {
    peer.shut_down_sending();
  }
  Result<int> status = run_coro([&](async::Context&) {
    return http::probe_status(std::move(pair.first), "actor:8080", "/readyz?x=1",
                              milliseconds(200));
  });
  request = peer.read_all();
  return status;
}

}  // namespace

TEST_CASE("probe: the status of the final reply") {
  std::string request;
  CHECK(probe("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, request) == 200);
  CHECK(request ==
        "GET /readyz?x=1 HTTP/1.1\r\nHost: actor:8080\r\nUser-Agent: ate-noded\r\n"
        "Accept: */*\r\nConnection: close\r\n\r\n");
  CHECK(probe("HTTP/1.0 503 Not yet\r\n\r\nbody", true, request) == 503);
  CHECK(probe("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", false, request) == 204);
}

TEST_CASE("probe: no reply, garbage, silence") {
  std::string request;
  CHECK(probe("", true, request).error().code() == Errc::UpstreamFailed);
  CHECK(probe("HTTP/1.1 2", true, request).error().code() == Errc::UpstreamFailed);
  CHECK(probe("hello\r\n\r\n", false, request).error().code() == Errc::UpstreamFailed);
  CHECK(probe("HTTP/1.1 200 OK\r\n", false, request).error().code() == Errc::DeadlineExceeded);
}

TEST_CASE("probe: a path that would be two lines is refused") {
  std::pair<UniqueFd, UniqueFd> pair = socket_pair();
  const Result<int> refused = run_coro([&](async::Context&) {
    return http::probe_status(std::move(pair.first), "a", "/ HTTP/1.1\r\nX: y", milliseconds(200));
  });
  CHECK(refused.error().code() == Errc::InvalidValue);
}
