#include <algorithm>

#include "ate/http/server.hpp"
#include "http/input.hpp"

namespace ate::http {

namespace {

constexpr std::size_t kHeadBytes = 64UL * 1024;
constexpr std::size_t kHeadLines = 256;
constexpr int kMaxInterim = 16;

bool printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c != '\x7f'; });
}

async::Task<Result<int>> exchange(Stream stream, std::string request) {
  Slices slices;
  slices.add(request);
  for (Stream::Sent sent = stream.send_now(slices); sent != Stream::Sent::All;
       sent = stream.send_now(slices)) {
    bool writable = false;
    if (sent == Stream::Sent::Blocked) {
      writable = co_await stream.wait_writable();
    }
    if (!writable) {
      co_return fail(Errc::UpstreamFailed, "the probed server closed the connection");
    }
  }
  Input input(stream, kHeadBytes, kHeadLines);
  Head head;
  for (int interim = 0; interim < kMaxInterim;) {
    const HeadScan::State state = input.scan_head();
    if (state == HeadScan::State::NeedMore) {
      const long got = co_await input.fill(Buffer::kSmall);
      if (got <= 0) {
        co_return fail(Errc::UpstreamFailed, "the probed server sent no reply");
      }
      continue;
    }
    if (state != HeadScan::State::Complete || !parse_reply_head(input.head(), head)) {
      co_return fail(Errc::UpstreamFailed, "the probed server's reply is not HTTP");
    }
    if (head.status >= 200) {
      co_return head.status;
    }
    input.begin_body(Framing());
    ++interim;
  }
  co_return fail(Errc::UpstreamFailed, "the probed server sent too many 1xx replies");
}

async::Task<Result<int>> open_and_exchange(UniqueFd socket, std::string request) {
  const boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
  ATE_CO_ASSIGN(Stream stream, Stream::open(executor, std::move(socket)));
  co_return co_await exchange(std::move(stream), std::move(request));
}

}  // namespace

async::Task<Result<int>> probe_status(UniqueFd socket, std::string host, std::string path,
                                      std::chrono::milliseconds timeout) {
  if (!printable(host) || !printable(path) || !path.starts_with('/')) {
    co_return fail(Errc::InvalidValue, "the probe's path must begin with '/' and hold no blanks");
  }
  std::string request = "GET " + path + " HTTP/1.1\r\nHost: " + host +
                        "\r\nUser-Agent: ate-noded\r\nAccept: */*\r\nConnection: close\r\n\r\n";
  co_return co_await async::with_deadline<int>(
      timeout, "readiness probe", open_and_exchange(std::move(socket), std::move(request)));
}

}  // namespace ate::http
