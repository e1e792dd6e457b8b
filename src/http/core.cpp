#include "http/core.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>

#include "ate/util/ids.hpp"
#include "http/connection.hpp"

namespace ate::http {

namespace {

// Connections beyond the limit that still get a proper 503.
constexpr std::size_t kRefusalRoom = 32;
// Deadlines that pass within this time are looked at together.
constexpr std::chrono::milliseconds kDeadlineGrain(20);

/// Bijective mixing (splitmix64): distinct numbers stay distinct, and one does not show the next.
std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

Core::Core(async::Context& c, Limits l, Handler h, RenderError render,
           std::function<void(const std::string&)> trouble)
    : context(c),
      limits(l),
      handler(std::move(h)),
      render_error(std::move(render)),
      on_trouble(std::move(trouble)),
      scope(c, [this](const std::string& name,
                      const std::string& what) { on_trouble(name + ": " + what); }),
      freed(c),
      timer_(c.loop) {
  random_bytes(reinterpret_cast<unsigned char*>(&id_seed_), sizeof id_seed_);
}

std::string Core::next_request_id() {
  static constexpr std::array<char, 16> kDigits = {'0', '1', '2', '3', '4', '5', '6', '7',
                                                   '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::uint64_t value = mix(id_seed_ + ++ids_);
  std::string id(16, '0');
  for (char& digit : id) {
    digit = kDigits[value >> 60];
    value <<= 4;
  }
  return id;
}

void Core::watch_deadline(SteadyTime when) {
  if (when < next_look_) {
    arm(when);
  }
}

void Core::arm(SteadyTime when) {
  next_look_ = when;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const std::shared_ptr<Core> core = weak.lock();
    if (!error && core != nullptr) {
      core->on_timer();
    }
  });
}

void Core::on_timer() {
  const SteadyTime now = std::chrono::steady_clock::now();
  SteadyTime earliest = SteadyTime::max();
  for (const Connections* list : {&busy_, &idle_}) {
    for (Connection* connection : *list) {
      earliest = std::min(earliest, connection->check_deadline(now));
    }
  }
  next_look_ = SteadyTime::max();
  if (earliest != SteadyTime::max()) {
    arm(std::max(earliest, now + kDeadlineGrain));
  }
}

Core::Connections::iterator Core::join(Connection& connection) {
  counted_ += connection.counts() ? 1 : 0;
  return busy_.insert(busy_.end(), &connection);
}

void Core::leave(Connections::iterator place) noexcept {
  counted_ -= (*place)->counts() ? 1 : 0;
  ((*place)->idle() ? idle_ : busy_).erase(place);
  freed.set();
  if (connections() == 0) {
    // A timer without a connection would only keep the loop awake.
    timer_.cancel();
    next_look_ = SteadyTime::max();
  }
}

void Core::mark_idle(Connections::iterator place) noexcept {
  idle_.splice(idle_.end(), busy_, place);
}

void Core::mark_busy(Connections::iterator place) noexcept {
  busy_.splice(busy_.end(), idle_, place);
}

bool Core::admit(uid_t uid) noexcept {
  const std::size_t reserve = std::min(limits.root_reserve, limits.connections);
  const std::size_t allowed = uid == 0 ? limits.connections : limits.connections - reserve;
  if (counted_ < allowed) {
    return true;
  }
  return evict_idle() && counted_ < allowed;
}

bool Core::evict_idle() noexcept {
  const auto oldest =
      std::find_if(idle_.begin(), idle_.end(), [](const Connection* one) { return one->counts(); });
  if (oldest == idle_.end()) {
    return false;
  }
  (*oldest)->cut();
  return true;
}

bool Core::may_refuse_politely() const noexcept {
  return connections() < limits.connections + kRefusalRoom;
}

bool Core::take_stream() noexcept {
  if (streams_ >= limits.streams) {
    return false;
  }
  ++streams_;
  return true;
}

void Core::cut_unserved() noexcept {
  for (const Connections* list : {&busy_, &idle_}) {
    for (Connection* connection : *list) {
      if (!connection->in_flight()) {
        connection->cut();
      }
    }
  }
}

void Core::cut_all() noexcept {
  for (const Connections* list : {&busy_, &idle_}) {
    for (Connection* connection : *list) {
      connection->cut();
    }
  }
}

}  // namespace ate::http
