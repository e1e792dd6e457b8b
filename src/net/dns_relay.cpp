#include "net/dns_relay.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "net/dns_relay_state.hpp"

namespace ate::net {

namespace {

constexpr std::chrono::milliseconds kTick(50);
constexpr int kEventsPerRound = 64;
constexpr int kRoundsPerTurn = 8;  // then others on the loop get theirs

}  // namespace

DnsRelay::State::State(async::Context& c, Options o)
    : context(c),
      options(std::move(o)),
      resolvers(options.resolv_conf),
      epoll(::epoll_create1(EPOLL_CLOEXEC)),
      now(std::chrono::steady_clock::now()),
      timed(context) {}

bool DnsRelay::State::add(std::unique_ptr<DnsPort> port, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = ++last_key;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, port->fd.get(), &event) != 0) {
    return false;
  }
  port->key = last_key;
  port->actor->keys.insert(last_key);
  if (port->deadline != SteadyTime::max()) {
    timed.set();
  }
  ports.emplace(last_key, std::move(port));
  return true;
}

void DnsRelay::State::watch(const DnsPort& port, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = port.key;
  // IGNORED: only out of memory makes it fail; the port's deadline ends it then.
  static_cast<void>(::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, port.fd.get(), &event));
}

void DnsRelay::State::drop(std::uint64_t key) {
  const auto found = ports.find(key);
  if (found != ports.end()) {
    found->second->actor->keys.erase(key);
    gone.push_back(std::move(found->second));
    ports.erase(found);
  }
}

bool DnsRelay::State::admit(DnsActor& actor) {
  const std::chrono::duration<double> passed = now - actor.filled;
  actor.tokens = std::min(options.rate, actor.tokens + passed.count() * options.rate);
  actor.filled = now;
  if (actor.tokens < 1) {
    return false;
  }
  actor.tokens -= 1;
  return true;
}

void DnsRelay::State::serve_round() {
  std::array<epoll_event, kEventsPerRound> events;
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    now = std::chrono::steady_clock::now();
    const int count = ::epoll_wait(epoll.get(), events.data(), kEventsPerRound, 0);
    for (int i = 0; i < count; ++i) {
      const auto& event = events.at(static_cast<std::size_t>(i));
      const auto found = ports.find(event.data.u64);
      if (found != ports.end()) {
        found->second->ready(event.events);
      }
    }
    gone.clear();
    if (count < kEventsPerRound) {
      break;
    }
  }
}

void DnsRelay::State::tick() {
  now = std::chrono::steady_clock::now();
  std::vector<std::uint64_t> late;
  bool again = false;
  for (const auto& [key, port] : ports) {
    if (port->deadline <= now) {
      late.push_back(key);
    }
    again = again || port->deadline != SteadyTime::max();
  }
  for (const std::uint64_t key : late) {
    const auto found = ports.find(key);
    if (found != ports.end()) {
      found->second->deadline = SteadyTime::max();
      found->second->expired();
    }
  }
  for (const auto& [id, actor] : actors) {
    const auto port = ports.find(actor->udp_key);
    if (actor->paused && port != ports.end()) {
      actor->paused = false;
      watch(*port->second, EPOLLIN);
    }
  }
  gone.clear();
  if (!again) {
    timed.reset();
  }
}

DnsRelay::DnsRelay(async::Context& context, Options options)
    : state_(std::make_shared<State>(context, std::move(options))) {}

DnsRelay::~DnsRelay() = default;

Status DnsRelay::attach(const NetnsPair& pair) {
  if (!state_->epoll) {
    return fail(Errc::Unavailable, "the DNS relay could not be set up");
  }
  detach(pair.id);
  const auto actor = std::make_shared<DnsActor>();
  actor->id = pair.id;
  state_->actors[pair.id] = actor;
  Status opened = open_dns_ports(*state_, actor, pair);
  if (!opened) {
    detach(pair.id);
  }
  return opened;
}

void DnsRelay::detach(const std::string& id) {
  const auto found = state_->actors.find(id);
  if (found == state_->actors.end()) {
    return;
  }
  const DnsActorPtr actor = std::move(found->second);
  state_->actors.erase(found);
  const std::set<std::uint64_t> keys = actor->keys;
  for (const std::uint64_t key : keys) {
    state_->drop(key);
  }
  state_->gone.clear();
}

async::Task<void> DnsRelay::keep_time() {
  const std::shared_ptr<State> state = state_;
  for (;;) {
    co_await state->timed.wait();
    co_await async::sleep_for(kTick);
    state->tick();
  }
}

async::Task<void> DnsRelay::serve() {
  const std::shared_ptr<State> state = state_;
  Status readable;
  while (readable) {
    readable = co_await async::wait_readable(state->epoll.get());
    state->serve_round();
  }
}

}  // namespace ate::net
