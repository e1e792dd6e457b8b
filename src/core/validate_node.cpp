#include <algorithm>
#include <cmath>

#include "ate/core/validate.hpp"
#include "ate/util/cidr.hpp"
#include "ate/util/log.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "core/checker.hpp"

namespace ate::core {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxSocketPath = 107;
constexpr std::int64_t kMaxBytes = 1LL << 46;

bool is_group_name(const std::string& text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= 32 && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), good);
}

/// "0660": three octal digits with an optional leading 0. Nothing executable, nothing sticky.
bool is_socket_mode(std::string text) {
  if (text.size() == 4 && text.front() == '0') {
    text.erase(0, 1);
  }
  return text.size() == 3 && std::all_of(text.begin(), text.end(), [](char c) {
           return c == '0' || c == '2' || c == '4' || c == '6';
         });
}

bool is_below(const std::string& inner, const std::string& outer) {
  return inner == outer || inner.starts_with(outer + "/");
}

void listen(Checker& check, const v1alpha1::Listen& listen) {
  if (!listen.socket().empty() && check.clean_path("spec.listen.socket", listen.socket()) &&
      listen.socket().size() > kMaxSocketPath) {
    check.invalid("spec.listen.socket", "is " + std::to_string(listen.socket().size()) +
                                            " bytes; a socket path has at most 107");
  }
  if (!listen.mode().empty() && !is_socket_mode(listen.mode())) {
    check.invalid("spec.listen.mode",
                  "must be three octal digits of 0, 2, 4 and 6 in quotes, for example \"0660\"");
  }
  if (!listen.group().empty() && !is_group_name(listen.group())) {
    check.invalid("spec.listen.group", "is no group name");
  }
}

void overhead(Checker& check, const std::string& path, const v1alpha1::OverheadTerms& terms) {
  if (!terms.fixed().empty()) {
    check.bytes(path + ".fixed", terms.fixed(), 0, kMaxBytes);
  }
  if (!terms.per_vcpu().empty()) {
    check.bytes(path + ".perVcpu", terms.per_vcpu(), 0, kMaxBytes);
  }
  if (!std::isfinite(terms.percent()) || terms.percent() < 0 || terms.percent() > 90) {
    check.invalid(path + ".percent", "is outside 0..90");
  }
}

void directories(Checker& check, const v1alpha1::NodeConfigSpec& spec) {
  bool good = true;
  if (!spec.state_dir().empty()) {
    good = check.clean_path("spec.stateDir", spec.state_dir());
  }
  if (!spec.run_dir().empty()) {
    good = check.clean_path("spec.runDir", spec.run_dir()) && good;
  }
  if (!spec.cgroup_root().empty()) {
    check.clean_path("spec.cgroupRoot", spec.cgroup_root());
  }
  if (good && !spec.state_dir().empty() && !spec.run_dir().empty() &&
      (is_below(spec.state_dir(), spec.run_dir()) || spec.state_dir() == spec.run_dir())) {
    check.invalid("spec.stateDir",
                  "must not be spec.runDir or below it: that is gone after a reboot");
  }
}

void uid_range(Checker& check, const v1alpha1::UidRange& range) {
  // 4294967295 means "no change" to chown, 65534 is nobody's.
  constexpr std::int64_t kLastUid = 4'294'967'293;
  const std::int64_t start = range.has_start() ? range.start() : 2'000'000'000;
  const std::int64_t count = range.has_count() ? range.count() : 65'536;
  check.range("spec.uidRange.start", start, 65'536, kLastUid);
  check.range("spec.uidRange.count", count, 1, kLastUid);
  if (start >= 65'536 && start <= kLastUid && count >= 1 && count <= kLastUid &&
      start + count - 1 > kLastUid) {
    check.invalid("spec.uidRange.count", "start and count pass the last uid, 4294967293");
  }
  if (start != 2'000'000'000 || count != 65'536) {
    check.not_yet("spec.uidRange", "uids of micro-VMs other than the default range");
  }
}

void network(Checker& check, const v1alpha1::Network& network) {
  constexpr unsigned kLargest = 8;
  constexpr unsigned kSmallest = 30;
  if (!network.uplinks().empty()) {
    const std::optional<Cidr> range = parse_cidr(network.uplinks());
    if (!range || range->length < kLargest || range->length > kSmallest) {
      check.invalid("spec.network.uplinks",
                    "must be an IPv4 network of /8 to /30 such as 198.19.0.0/16");
    } else if (overlap(*range, *parse_cidr("169.254.0.0/16")) ||
               overlap(*range, *parse_cidr("127.0.0.0/8")) ||
               overlap(*range, *parse_cidr("224.0.0.0/3")) ||
               overlap(*range, *parse_cidr("0.0.0.0/8"))) {
      check.invalid("spec.network.uplinks", "is not a range of ordinary addresses");
    }
  }
  for (int i = 0; i < network.blocked_size(); ++i) {
    if (!parse_cidr(network.blocked(i))) {
      check.invalid("spec.network.blocked[" + std::to_string(i) + "]",
                    "must be an IPv4 network such as 10.0.0.0/8, its host bits zero");
    }
  }
  if (!network.nft().empty()) {
    check.clean_path("spec.network.nft", network.nft());
  }
  if (!network.resolv_conf().empty()) {
    check.clean_path("spec.network.resolvConf", network.resolv_conf());
  }
}

void sizing(Checker& check, const v1alpha1::NodeConfigSpec& spec) {
  constexpr double kMostOvercommit = 100;
  const v1alpha1::SizingOvercommit& overcommit = spec.sizing().overcommit();
  const auto factor = [&](const std::string& path, bool given, double value) {
    if (given && !(value >= 1 && value <= kMostOvercommit)) {
      check.invalid(path, "is outside 1..100; 1 promises no more than there is");
    }
  };
  factor("spec.sizing.overcommit.memory", overcommit.has_memory(), overcommit.memory());
  factor("spec.sizing.overcommit.cpu", overcommit.has_cpu(), overcommit.cpu());
  if (!spec.host_reserve().memory().empty()) {
    check.bytes("spec.hostReserve.memory", spec.host_reserve().memory(), 0, kMaxBytes);
  }
}

void retention(Checker& check, const v1alpha1::Retention& retention) {
  constexpr auto kLongest = std::chrono::hours(24 * 3650);
  constexpr std::int64_t kMost = 10'000'000;
  if (retention.has_operations()) {
    check.range("spec.retention.operations", retention.operations(), 100, kMost);
  }
  if (retention.has_events()) {
    check.range("spec.retention.events", retention.events(), 100, kMost);
  }
  const std::pair<const char*, const std::string*> times[] = {
      {"spec.retention.operationsFor", &retention.operations_for()},
      {"spec.retention.eventsFor", &retention.events_for()},
      {"spec.retention.unreferencedFor", &retention.unreferenced_for()}};
  for (const auto& [path, text] : times) {
    if (!text->empty()) {
      check.duration(path, *text, 0ms, kLongest);
    }
  }
}

}  // namespace

std::vector<Problem> validate(const v1alpha1::NodeConfig& object) {
  Checker check;
  const v1alpha1::NodeConfigSpec& spec = object.spec();
  check.metadata(object.metadata(), false, false);
  directories(check, spec);
  listen(check, spec.listen());
  if (!spec.enforcement().empty() && spec.enforcement() != "required" &&
      spec.enforcement() != "off") {
    check.invalid("spec.enforcement", "must be required or off");
  }
  uid_range(check, spec.uid_range());
  network(check, spec.network());
  sizing(check, spec);
  overhead(check, "spec.overhead.microvm", spec.overhead().microvm());
  overhead(check, "spec.overhead.gvisor", spec.overhead().gvisor());
  if (!spec.operation_wait().empty()) {
    check.duration("spec.operationWait", spec.operation_wait(), 1ms, 1h);
  }
  LogLevel level = LogLevel::Info;
  if (!spec.log_level().empty() && !parse_log_level(spec.log_level(), level)) {
    check.invalid("spec.logLevel", "must be error, warning, info or debug");
  }
  if (!spec.disk_reserve().empty()) {
    check.bytes("spec.diskReserve", spec.disk_reserve(), 0, 1LL << 50);
  }
  if (!spec.storage_budget().empty()) {
    check.bytes("spec.storageBudget", spec.storage_budget(), 1LL << 20, 1LL << 50);
  }
  if (!spec.secrets_dir().empty()) {
    check.clean_path("spec.secretsDir", spec.secrets_dir());
  }
  retention(check, spec.retention());
  return check.take();
}

}  // namespace ate::core
