#pragma once

#include <string>
#include <utility>

#include "ate/api/api.hpp"
#include "ate/api/problems.hpp"
#include "fake_backend.hpp"
#include "support/catch.hpp"
#include "support/fake_exchange.hpp"
#include "support/run_coro.hpp"

namespace ate::test {

struct Answer {
  int status = 0;
  std::string content_type;
  std::string body;
  http::Headers headers;
  std::string streamed;
  bool finished = false;
  std::optional<http::Exchange::Upstream> upstream;
  std::vector<std::string> dropped;
  std::string switched_to;

  [[nodiscard]] std::string header(std::string_view name) const {
    return std::string(http::find_header(headers, name).value_or(""));
  }

  /// Slug of a problem document; "" when it is none.
  [[nodiscard]] std::string problem() const {
    constexpr std::string_view kType = R"("type":"/v1/problems/)";
    if (content_type != "application/problem+json" || !body.starts_with("{" + std::string(kType))) {
      return {};
    }
    const std::string rest = body.substr(kType.size() + 1);
    return rest.substr(0, rest.find('"'));
  }

  [[nodiscard]] bool has(std::string_view text) const {
    return body.find(text) != std::string::npos;
  }
};

inline http::Request make_request(std::string method, std::string target, std::string body) {
  http::Request request;
  request.method = std::move(method);
  request.target = std::move(target);
  const std::size_t mark = request.target.find('?');
  request.path = request.target.substr(0, mark);
  request.query = mark == std::string::npos ? "" : request.target.substr(mark + 1);
  if (!body.empty()) {
    request.headers.emplace_back("Content-Length", std::to_string(body.size()));
    request.headers.emplace_back("Content-Type", "application/json");
  }
  request.body = std::move(body);
  request.request_id = "0123456789abcdef";
  return request;
}

/// Runs one request through the whole API as the server would.
inline Answer send(FakeBackend& backend, http::Request request,
                   const std::function<void(FakeExchange&)>& prepare) {
  const SystemClock clock;
  const Log log(LogLevel::Error);
  Answer answer;
  run_coro([&](async::Context& context) -> async::Task<void> {
    api::Options options;
    options.version = "1.2.3";
    options.heartbeat = std::chrono::milliseconds(20);
    options.follow_period = std::chrono::milliseconds(5);
    api::Api api(context, backend, clock, log, std::move(options));
    FakeExchange exchange(context, std::move(request));
    if (prepare) {
      prepare(exchange);
    }
    Status handled = co_await api.handle(exchange);
    if (!handled && !exchange.reply) {
      exchange.reply = api::render_error(handled.error(), &exchange.request());
    }
    answer.status = exchange.reply->status;
    answer.content_type = exchange.reply->content_type;
    answer.body = exchange.reply->body;
    answer.headers = exchange.reply->headers;
    answer.streamed = exchange.streamed;
    answer.finished = exchange.finished;
    answer.upstream = std::move(exchange.upstream);
    answer.dropped = std::move(exchange.dropped);
    answer.switched_to = std::move(exchange.switched_to);
  });
  return answer;
}

inline Answer call(FakeBackend& backend, std::string method, std::string target, std::string body) {
  return send(backend, make_request(std::move(method), std::move(target), std::move(body)), {});
}

inline Answer get(FakeBackend& backend, std::string target) {
  return call(backend, "GET", std::move(target), {});
}

}  // namespace ate::test
