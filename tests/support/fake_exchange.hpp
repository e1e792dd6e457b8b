#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ate/http/server.hpp"

namespace ate::test {

/// An Exchange without a connection: what comes in is set by the test, what goes out is kept.
class FakeExchange final : public http::Exchange {
 public:
  FakeExchange(async::Context& context, http::Request request)
      : request_(std::move(request)), incoming(std::move(request_.body)), gone(context) {
    request_.body.clear();
    request_.head_only = request_.method == "HEAD";
  }

  [[nodiscard]] http::Request& request() override { return request_; }

  [[nodiscard]] async::Task<Status> read_body() override {
    if (body_error) {
      co_return fail(*body_error);
    }
    request_.body = incoming;
    co_return Status{};
  }

  [[nodiscard]] async::Task<Status> respond(http::Response response) override {
    reply = std::move(response);
    co_return Status{};
  }

  [[nodiscard]] async::Task<Status> start_stream(http::Response head) override {
    if (stream_error) {
      co_return fail(*stream_error);
    }
    reply = std::move(head);
    co_return Status{};
  }

  [[nodiscard]] async::Task<Status> write(std::string chunk) override {
    streamed += chunk;
    if (on_write) {
      on_write();
    }
    co_return Status{};
  }

  [[nodiscard]] async::Task<Status> finish() override {
    finished = true;
    co_return Status{};
  }

  [[nodiscard]] async::Task<void> peer_gone() override { co_await gone.wait(); }

  [[nodiscard]] Status admit_stream() override {
    if (stream_error) {
      return fail(*stream_error);
    }
    admitted = true;
    return {};
  }

  [[nodiscard]] async::Task<Status> forward(Upstream to, std::vector<std::string> names) override {
    if (forward_error) {
      co_return fail(*forward_error);
    }
    if (to.on_activity) {
      to.on_activity(1);
    }
    upstream = std::move(to);
    dropped = std::move(names);
    reply = http::Response{};
    co_return Status{};
  }

  [[nodiscard]] async::Task<Status> tunnel(Upstream to, std::string protocol) override {
    if (to.on_switch) {
      to.on_switch();
    }
    upstream = std::move(to);
    switched_to = std::move(protocol);
    reply = http::Response{};
    co_return Status{};
  }

  [[nodiscard]] bool replied() const noexcept override { return reply.has_value(); }

 private:
  http::Request request_;

 public:
  std::string incoming;
  async::Event gone;  // the client went away
  std::function<void()> on_write;
  std::optional<Error> body_error;
  std::optional<Error> stream_error;
  std::optional<Error> forward_error;

  std::optional<http::Response> reply;
  std::string streamed;
  bool finished = false;
  bool admitted = false;
  std::optional<Upstream> upstream;
  std::vector<std::string> dropped;
  std::string switched_to;
};

}  // namespace ate::test
