#include "ate/net/egress.hpp"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>

#include "ate/util/failpoint.hpp"
#include "net/dns_relay.hpp"
#include "net/nft.hpp"
#include "net/nft_rules.hpp"
#include "net/pair.hpp"
#include "net/uplink.hpp"

namespace ate::net {

namespace {

constexpr std::size_t kPrefixSize = 7;
constexpr std::size_t kIdSize = 8;
constexpr int kLeaseTries = 256;
// Somebody who changes rules changes several at a time.
constexpr std::chrono::milliseconds kSettle(100);
constexpr std::chrono::seconds kLookAgain(5);  // where the kernel tells no events

Result<UniqueFd> open_rule_events() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!fd) {
    return fail(Error::from_errno("watch the host's packet filter", errno));
  }
  sockaddr_nl self{};
  self.nl_family = AF_NETLINK;
  self.nl_groups = 1U << (NFNLGRP_NFTABLES - 1U);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&self), sizeof self) != 0) {
    return fail(Error::from_errno("watch the host's packet filter", errno));
  }
  return fd;
}

void drain(const UniqueFd& fd) {
  std::array<char, 65536> buffer;
  ssize_t got = 0;
  do {
    got = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  } while (got >= 0 || errno == ENOBUFS || errno == EINTR);
}

Status pass(const char* name) {
  if (failpoint(name)) {
    return fail(Errc::RuntimeFailed, std::string("failpoint ") + name);
  }
  return {};
}

}  // namespace

std::string uplink_prefix(const std::string& run_dir) {
  std::uint32_t value = 2166136261;  // FNV-1a
  for (const char c : run_dir) {
    value = (value ^ static_cast<unsigned char>(c)) * 16777619;
  }
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "ate";
  for (unsigned shift = 0; shift < 16; shift += 4) {
    out.push_back(kDigits[(value ^ value >> 16U) >> shift & 0xfU]);
  }
  return out;
}

struct Egress::State {
  State(async::Context& c, async::Reaper& reaper, EgressOptions o,
        std::function<void(const std::string&)> notice)
      : context(c),
        options(std::move(o)),
        on_notice(std::move(notice)),
        plan{.prefix = options.prefix, .uplinks = options.uplinks, .blocked = options.blocked},
        nft(c, reaper, options.nft),
        dns(c, {.resolv_conf = options.resolv_conf}),
        rules(c) {}

  async::Task<Status> connect(NetnsPair pair);
  async::Task<Status> disconnect(std::string id);
  async::Task<Result<std::uint32_t>> lease(std::string id);
  async::Task<Status> ensure_rules();
  async::Task<Status> install_rules();
  async::Task<Status> look_after_rules();

  [[nodiscard]] std::string link(const std::string& id) const { return options.prefix + id; }

  async::Context context;
  const EgressOptions options;
  const std::function<void(const std::string&)> on_notice;
  const NatPlan plan;
  Nft nft;
  DnsRelay dns;
  async::Mutex rules;     // around changes of the host's table
  std::string installed;  // the table as nft lists it; "" = not ours to look after yet
  std::string unlike;     // how it was listed instead, just after it was installed
  std::map<std::string, std::uint32_t> leases;  // pair -> host address
  std::set<std::uint32_t> taken;
  std::uint32_t next = 0;  // where the search begins: an address is not used again at once
  std::string trouble;     // what inspect() found
};

/// A free /31: not leased, and the host has no route to it.
async::Task<Result<std::uint32_t>> Egress::State::lease(std::string id) {
  const std::uint32_t count = 1U << (31U - options.uplinks.length);
  for (int tries = 0; tries < kLeaseTries && taken.size() < count; ++tries) {
    const std::uint32_t address = options.uplinks.address + 2 * (next++ % count);
    if (!taken.insert(address).second) {
      continue;
    }
    auto look = [address]() -> Result<bool> {
      ATE_ASSIGN(const bool even, is_routed(address));
      ATE_ASSIGN(const bool odd, is_routed(address + 1));
      return even || odd;
    };
    const Result<bool> routed = co_await async::run_blocking(context, look);
    if (routed && !*routed) {
      leases[id] = address;
      co_return address;
    }
    taken.erase(address);
    if (!routed) {
      co_return fail(routed.error());
    }
  }
  co_return fail(Errc::Unavailable, "no uplink address is free in " + format_cidr(options.uplinks) +
                                        ": choose another spec.network.uplinks");
}

async::Task<Status> Egress::State::install_rules() {
  const Result<std::string> applied = co_await nft.apply(host_rules(plan), -1);
  ATE_CO_TRY(applied);
  std::vector<std::string> what{"table", "ip", host_table(plan)};
  ATE_CO_ASSIGN(std::string listed, co_await nft.list(std::move(what)));
  // The rules are always the same, so what the first listing said holds: a later one may already
  // show another change. Unless the same comes twice: then nft words it differently now.
  if (installed.empty() || listed == unlike) {
    installed = listed;
  }
  unlike = listed == installed ? std::string() : std::move(listed);
  co_return Status();
}

async::Task<Status> Egress::State::ensure_rules() {
  const async::Mutex::Lock lock = co_await rules.lock();
  if (!installed.empty()) {
    co_return Status();
  }
  co_return co_await install_rules();
}

async::Task<Status> Egress::State::look_after_rules() {
  const async::Mutex::Lock lock = co_await rules.lock();
  if (installed.empty()) {
    co_return Status();
  }
  std::vector<std::string> what{"table", "ip", host_table(plan)};
  const Result<std::string> now = co_await nft.list(std::move(what));
  if (now && *now == installed) {
    co_return Status();
  }
  const Status put_back = co_await install_rules();
  on_notice(put_back ? "somebody changed the table " + host_table(plan) + "; it was put back"
                     : "the table " + host_table(plan) +
                           " is not as it should be and can't be put back: " +
                           put_back.error().message());
  co_return put_back;
}

async::Task<Status> Egress::State::connect(NetnsPair pair) {
  ATE_CO_TRY(nft.check());
  auto forwarding = []() { return check_forwarding(); };
  const Status forwards = co_await async::run_blocking(context, forwarding);
  ATE_CO_TRY(forwards);
  const Status ready = co_await ensure_rules();
  ATE_CO_TRY(ready);
  ATE_CO_ASSIGN(const std::uint32_t address, co_await lease(pair.id));
  ATE_CO_TRY(pass("egress-leased"));
  // Before the link is there: the way out is never open without them.
  const Result<std::string> inner = co_await nft.apply(router_rules(plan), pair.router->get());
  ATE_CO_TRY(inner);
  ATE_CO_TRY(pass("egress-rules"));
  const Uplink uplink{.name = link(pair.id), .host_address = address};
  auto making = [uplink, router = pair.router]() { return make_uplink(uplink, router->get()); };
  const Status made = co_await async::run_blocking(context, making);
  ATE_CO_TRY(made);
  ATE_CO_TRY(pass("egress-linked"));
  co_return dns.attach(pair);
}

async::Task<Status> Egress::State::disconnect(std::string id) {
  dns.detach(id);
  const auto found = leases.find(id);
  if (found == leases.end()) {
    co_return Status();
  }
  auto removing = [name = link(id)]() { return remove_uplink(name); };
  const Status removed = co_await async::run_blocking(context, removing);
  ATE_CO_TRY(removed);
  ATE_CO_TRY(pass("egress-removed"));
  taken.erase(found->second);
  leases.erase(id);
  co_return Status();
}

Egress::Egress(async::Context& context, async::Reaper& reaper, EgressOptions options,
               std::function<void(const std::string&)> on_notice)
    : state_(std::make_shared<State>(context, reaper, std::move(options), std::move(on_notice))) {}

Egress::~Egress() = default;

async::Task<Status> Egress::attach(NetnsPair pair) {
  const std::shared_ptr<State> state = state_;
  Status connected = co_await state->connect(pair);
  if (!connected) {
    const Status undone = co_await state->disconnect(pair.id);
    // IGNORED: the first error is the one to tell; the link goes with its pair.
    static_cast<void>(undone);
  }
  co_return connected;
}

async::Task<Status> Egress::detach(std::string id) {
  const std::shared_ptr<State> state = state_;
  co_return co_await state->disconnect(std::move(id));
}

Result<std::vector<std::string>> Egress::leftovers() const {
  ATE_ASSIGN(const std::vector<std::string> names, list_uplinks(state_->options.prefix));
  std::vector<std::string> ids;
  for (const std::string& name : names) {
    std::string id = name.substr(kPrefixSize);
    if (name.size() == kPrefixSize + kIdSize && is_pair_id(id) && !state_->leases.contains(id)) {
      ids.push_back(std::move(id));
    }
  }
  return ids;
}

async::Task<Status> Egress::purge(std::string id) {
  const std::shared_ptr<State> state = state_;
  if (!is_pair_id(id)) {
    co_return fail(Errc::Internal, "not the id of a netns pair: " + id);
  }
  auto removing = [name = state->link(id)]() { return remove_uplink(name); };
  co_return co_await async::run_blocking(state->context, removing);
}

async::Task<void> Egress::inspect() {
  const std::shared_ptr<State> state = state_;
  auto looking = [state]() -> Status {
    ATE_TRY(state->nft.check());
    ATE_TRY(check_forwarding());
    ATE_ASSIGN(const bool taken, is_routed(state->options.uplinks.address));
    if (taken) {
      return fail(Errc::Unavailable,
                  "the host has routes into the range of the uplinks; links get "
                  "the addresses of it that are free");
    }
    return {};
  };
  const Status found = co_await async::run_blocking(state->context, looking);
  state->trouble = found ? std::string() : found.error().message();
  if (!found) {
    co_return;
  }
  std::vector<std::string> what{"chains"};
  const Result<std::string> chains = co_await state->nft.list(std::move(what));
  if (!chains) {
    state->trouble = chains.error().message();
    co_return;
  }
  const Result<std::vector<std::string>> links = list_uplinks(state->options.prefix);
  const std::string ours = "table ip " + host_table(state->plan) + " {";
  if (links && links->empty() && chains->find(ours) != std::string::npos) {
    // Of an earlier life: its actors are gone.
    const Result<std::string> removed =
        co_await state->nft.apply(remove_host_rules(state->plan), -1);
    static_cast<void>(removed);  // IGNORED: a table without links to match does nothing
  }
  for (const std::string& chain : dropping_forward_chains(*chains, host_table(state->plan))) {
    state->trouble += (state->trouble.empty() ? "" : "; ") + ("chain " + chain) +
                      " drops what is forwarded unless it says otherwise: it has to accept iifname "
                      "and oifname \"" +
                      state->options.prefix + "*\"";
  }
}

std::string Egress::detail() const {
  return state_->trouble.empty() ? "egress nat can be used" : state_->trouble;
}

async::Task<void> Egress::serve_dns() {
  const std::shared_ptr<State> state = state_;
  co_await state->dns.serve();
}

async::Task<void> Egress::time_dns() {
  const std::shared_ptr<State> state = state_;
  co_await state->dns.keep_time();
}

async::Task<void> Egress::guard() {
  const std::shared_ptr<State> state = state_;
  const Result<UniqueFd> events = open_rule_events();
  for (;;) {
    Status told = fail(Errc::Unavailable, "no events");
    if (events) {
      told = co_await async::wait_readable(events->get());
      drain(*events);
    }
    const std::chrono::nanoseconds pause =
        told ? std::chrono::nanoseconds(kSettle) : std::chrono::nanoseconds(kLookAgain);
    co_await async::sleep_for(pause);
    if (events) {
      drain(*events);
    }
    const Status looked = co_await state->look_after_rules();
    static_cast<void>(looked);  // told by on_notice
  }
}

async::Task<void> Egress::shutdown() {
  const std::shared_ptr<State> state = state_;
  const Result<std::vector<std::string>> links = list_uplinks(state->options.prefix);
  if (links && !links->empty()) {
    co_return;  // actors run on, with their rules
  }
  const async::Mutex::Lock lock = co_await state->rules.lock();
  if (!state->installed.empty()) {
    state->installed.clear();
    const Result<std::string> removed =
        co_await state->nft.apply(remove_host_rules(state->plan), -1);
    static_cast<void>(removed);  // IGNORED: a table without links to match does nothing
  }
}

}  // namespace ate::net
