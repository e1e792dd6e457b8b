#include "forward_rig.hpp"

#include <boost/asio/post.hpp>

namespace ate::test {

ForwardRig::ForwardRig(Script script, http::Exchange::Upstream settings)
    : script_(std::move(script)),
      head_timeout_(settings.head_timeout),
      stall_timeout_(settings.stall_timeout) {
  server_ = std::make_unique<TestServer>(
      http::Limits(), [this](http::Exchange& exchange) { return forward(exchange); });
  upstream_ended_ = std::make_shared<async::Event>(server_->context());
}

void ForwardRig::end_upstream() {
  boost::asio::post(server_->context().loop, [ended = upstream_ended_]() { ended->set(); });
}

ForwardRig::~ForwardRig() {
  server_.reset();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

async::Task<Status> ForwardRig::forward(http::Exchange& exchange) {
  std::pair<UniqueFd, UniqueFd> pair = socket_pair();
  auto upstream = std::make_shared<Client>(std::move(pair.second));
  threads_.emplace_back([this, upstream]() {
    script_(*upstream);
    upstream->close();
    ++ended;
  });
  http::Exchange::Upstream to;
  to.socket = std::move(pair.first);
  to.target = exchange.request().target;
  to.on_activity = [this](std::uint64_t bytes) { activity += bytes; };
  to.head_timeout = head_timeout_;
  to.stall_timeout = stall_timeout_;
  to.on_switch = [this]() { ++switched; };
  to.ended = upstream_ended_;
  std::vector<std::string> drop = {"ate-atespace"};
  Status outcome;
  if (tunnel) {
    outcome = co_await exchange.tunnel(std::move(to), "tcp");
  } else {
    outcome = co_await exchange.forward(std::move(to), std::move(drop));
  }
  ++ended_requests;
  co_return outcome;
}

std::string pattern(std::size_t offset, std::size_t count) {
  std::string text(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = offset + i;
    text[i] = static_cast<char>((at * 2654435761U) >> 13);
  }
  return text;
}

}  // namespace ate::test
