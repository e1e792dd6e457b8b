#include "daemon/config.hpp"

#include <charconv>
#include <optional>
#include <utility>

#include "ate/codec/codec.hpp"
#include "ate/core/units.hpp"
#include "ate/core/validate.hpp"
#include "ate/objects/check.hpp"
#include "ate/os/fs.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::daemon {

namespace {

constexpr std::size_t kFileLimit = 1UL << 20;

Error config_error(const std::string& file, std::string detail) {
  Problem problem;
  problem.code = Errc::InvalidValue;
  problem.detail = detail;
  problem.file = file;
  return Error(Errc::InvalidValue, std::move(detail)).with_problems({std::move(problem)});
}

/// The one document of the file, checked; `node` keeps its defaults when the file is missing.
Status read_file(const CommandLine& command_line, v1alpha1::NodeConfig& node) {
  const std::string& file = command_line.config;
  const Result<std::string> text = os::read_file(file, kFileLimit);
  if (!text) {
    if (text.error().code() == Errc::NotFound && !command_line.config_given) {
      return {};
    }
    return fail(config_error(file, text.error().message()));
  }
  const std::vector<codec::Document> documents = codec::parse_yaml(*text, file);
  if (documents.size() != 1) {
    return fail(config_error(file, "this file holds exactly one document, a NodeConfig; found " +
                                       std::to_string(documents.size())));
  }
  const codec::Document& document = documents.front();
  std::vector<Problem> problems = objects::check_document(document);
  if (!problems.empty()) {
    return fail(
        Error(Errc::InvalidValue, file + " is not valid").with_problems(std::move(problems)));
  }
  const auto* found = dynamic_cast<const v1alpha1::NodeConfig*>(document.message.get());
  if (found == nullptr) {
    return fail(config_error(file, "the document is no NodeConfig but " + document.kind));
  }
  node = *found;
  return {};
}

Result<core::OverheadTerms> overhead(const v1alpha1::OverheadTerms& terms) {
  core::OverheadTerms out;
  ATE_ASSIGN(out.fixed_bytes, core::parse_bytes(terms.fixed()));
  ATE_ASSIGN(out.per_vcpu_bytes, core::parse_bytes(terms.per_vcpu()));
  out.percent = terms.percent();
  return out;
}

Result<Cidr> network(const std::string& text) {
  const std::optional<Cidr> cidr = parse_cidr(text);
  if (!cidr) {
    return fail(
        Error(Errc::InvalidValue, "not an IPv4 network: " + text).with_field("spec.network"));
  }
  return *cidr;
}

Result<mode_t> socket_mode(const std::string& text) {
  mode_t mode = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, mode, 8);
  if (error != std::errc{} || stop != end || mode > 0777) {
    return fail(Error(Errc::InvalidValue, "listen.mode is an octal file mode such as \"0660\"")
                    .with_field("spec.listen.mode"));
  }
  return mode;
}

}  // namespace

Result<Config> load_config(const CommandLine& command_line) {
  v1alpha1::NodeConfig node;
  ATE_TRY(read_file(command_line, node));
  core::apply_defaults(node);
  const v1alpha1::NodeConfigSpec& spec = node.spec();
  Config out;
  out.config_dir = command_line.config_dir;
  out.state_dir = spec.state_dir();
  out.run_dir = spec.run_dir();
  out.socket = spec.listen().socket();
  ATE_ASSIGN(out.socket_mode, socket_mode(spec.listen().mode()));
  out.socket_group = spec.listen().group();
  out.enforcement = spec.enforcement() != "off";
  out.cgroup_root = spec.cgroup_root();
  ATE_ASSIGN(out.operation_wait, core::parse_duration(spec.operation_wait()));
  ATE_ASSIGN(out.disk_reserve_bytes, core::parse_bytes(spec.disk_reserve()));
  out.secrets_dir = spec.secrets_dir();
  out.keep_operations = static_cast<std::size_t>(spec.retention().operations());
  out.keep_events = static_cast<std::size_t>(spec.retention().events());
  ATE_ASSIGN(out.keep_operations_for, core::parse_duration(spec.retention().operations_for()));
  ATE_ASSIGN(out.keep_events_for, core::parse_duration(spec.retention().events_for()));
  ATE_ASSIGN(out.unreferenced_for, core::parse_duration(spec.retention().unreferenced_for()));
  if (!spec.storage_budget().empty()) {
    ATE_ASSIGN(out.storage_budget_bytes, core::parse_bytes(spec.storage_budget()));
  }
  ATE_ASSIGN(out.gvisor_overhead, overhead(spec.overhead().gvisor()));
  ATE_ASSIGN(out.uplinks, network(spec.network().uplinks()));
  for (const std::string& text : spec.network().blocked()) {
    ATE_ASSIGN(const Cidr cidr, network(text));
    out.blocked.push_back(cidr);
  }
  out.nft = spec.network().nft();
  out.resolv_conf = spec.network().resolv_conf();
  ATE_ASSIGN(out.microvm_overhead, overhead(spec.overhead().microvm()));
  ATE_ASSIGN(out.host_reserve_bytes, core::parse_bytes(spec.host_reserve().memory()));
  out.overcommit = {spec.sizing().overcommit().memory(), spec.sizing().overcommit().cpu()};
  out.require_actor_limits = spec.sizing().require_actor_limits();
  if (!parse_log_level(spec.log_level(), out.log_level)) {
    return fail(
        config_error(command_line.config, "spec.logLevel is error, warning, info or debug"));
  }
  out.text = indent_json(codec::to_json(node, "NodeConfig"));
  return out;
}

std::string describe(const Error& error) {
  std::string out;
  for (const Problem& problem : error.problems()) {
    std::string place = problem.file;
    if (problem.line != 0) {
      place += ':' + std::to_string(problem.line) + ':' + std::to_string(problem.column);
    }
    out += (place.empty() ? "ate-noded" : place) + ": ";
    out += (problem.field.empty() ? "" : problem.field + ": ") + problem.detail + '\n';
  }
  return out.empty() ? "ate-noded: " + error.message() + '\n' : out;
}

std::string indent_json(const std::string& json) {
  std::string out;
  std::size_t depth = 0;
  bool quoted = false;
  const auto newline = [&] { out += '\n' + std::string(2 * depth, ' '); };
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted || c == '"') {
      out += c;
      if (quoted && c == '\\' && i + 1 < json.size()) {
        out += json[++i];
      } else if (c == '"') {
        quoted = !quoted;
      }
    } else if ((c == '{' || c == '[') && i + 1 < json.size() && json[i + 1] == c + 2) {
      out += c;
      out += json[++i];
    } else if (c == '{' || c == '[') {
      out += c;
      ++depth;
      newline();
    } else if (c == '}' || c == ']') {
      --depth;
      newline();
      out += c;
    } else if (c == ',') {
      out += c;
      newline();
    } else {
      out += c;
      out += c == ':' ? " " : "";
    }
  }
  return out + '\n';
}

}  // namespace ate::daemon
