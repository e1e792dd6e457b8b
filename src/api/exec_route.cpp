#include "api/handlers.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/exec.hpp"
#include "ate/core/units.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "ate/v1alpha1/requests.pb.h"

namespace ate::api {

namespace {

using namespace std::chrono_literals;

constexpr int kMostWords = 1024;
constexpr std::size_t kMostBytes = std::size_t{128} << 10U;  // of one word: the kernel's limit
constexpr std::size_t kMostInput = std::size_t{512} << 10U;
constexpr std::chrono::milliseconds kLongest = 10min;

Error invalid(const std::string& field, const std::string& what) {
  return Error(Errc::InvalidValue, field + " " + what).with_field(field);
}

Status check_word(const std::string& field, const std::string& word) {
  if (word.size() >= kMostBytes) {
    return fail(invalid(field, "is longer than 131071 bytes"));
  }
  if (word.find('\0') != std::string::npos) {
    return fail(invalid(field, "holds a NUL byte"));
  }
  return {};
}

Status read_words(const v1alpha1::ExecRequest& request, core::ExecPlan& plan) {
  if (request.argv().empty() || request.argv(0).empty()) {
    return fail(invalid("argv", "is required: the program and its arguments"));
  }
  if (request.argv_size() > kMostWords || request.env_size() > kMostWords) {
    return fail(
        invalid(request.env_size() > kMostWords ? "env" : "argv", "has more than 1024 entries"));
  }
  for (int i = 0; i < request.argv_size(); ++i) {
    ATE_TRY(check_word("argv[" + std::to_string(i) + "]", request.argv(i)));
    plan.argv.push_back(request.argv(i));
  }
  for (int i = 0; i < request.env_size(); ++i) {
    const v1alpha1::EnvVar& variable = request.env(i);
    const std::string field = "env[" + std::to_string(i) + "]";
    if (variable.name().empty() || variable.name().find('=') != std::string::npos) {
      return fail(invalid(field + ".name", "is required and has no \"=\""));
    }
    if (variable.has_value_from()) {
      return fail(invalid(field + ".valueFrom", "is for templates; give the value"));
    }
    plan.env.push_back(variable.name() + "=" + variable.value());
    ATE_TRY(check_word(field, plan.env.back()));
  }
  return {};
}

Status read_input(const v1alpha1::ExecRequest& request, core::ExecPlan& plan) {
  plan.input = request.stdin();
  if (!request.stdin_base64().empty()) {
    if (!plan.input.empty()) {
      return fail(invalid("stdinBase64", "can't be given together with stdin"));
    }
    Result<std::string> bytes = core::base64_decode(request.stdin_base64());
    if (!bytes) {
      return fail(invalid("stdinBase64", bytes.error().message()));
    }
    plan.input = std::move(*bytes);
  }
  if (plan.input.size() > kMostInput) {
    return fail(invalid(request.stdin_base64().empty() ? "stdin" : "stdinBase64",
                        "is longer than 512 KiB"));
  }
  return {};
}

Result<core::ExecPlan> read_plan(const std::string& body) {
  v1alpha1::ExecRequest request;
  ATE_TRY(codec::from_json(body, {}, request));
  core::ExecPlan plan;
  ATE_TRY(read_words(request, plan));
  ATE_TRY(read_input(request, plan));
  plan.container = request.container();
  plan.working_dir = request.working_dir();
  plan.user = request.user();
  ATE_TRY(check_word("user", plan.user));
  ATE_TRY(check_word("workingDir", plan.working_dir));
  if (!plan.working_dir.empty() && plan.working_dir.front() != '/') {
    return fail(invalid("workingDir", "must be an absolute path"));
  }
  if (!request.timeout().empty()) {
    Result<std::chrono::milliseconds> timeout = core::parse_duration(request.timeout());
    if (!timeout) {
      return fail(std::move(timeout).error().with_field("timeout"));
    }
    plan.timeout = *timeout;
  }
  if (plan.timeout < 1ms || plan.timeout > kLongest) {
    return fail(invalid("timeout", "is from 1ms to 10m"));
  }
  return plan;
}

/// As text where that is possible.
std::string encode(std::string bytes, bool truncated, std::string& encoding) {
  if (truncated) {
    std::string trimmed = core::trim_cut(bytes);
    if (core::is_plain_text(trimmed)) {
      bytes = std::move(trimmed);
    }
  }
  const bool plain = core::is_plain_text(bytes);
  encoding = plain ? "utf-8" : "base64";
  return plain ? std::move(bytes) : core::base64_encode(bytes);
}

}  // namespace

async::Task<Status> exec_actor(Call& call) {
  ATE_CO_ASSIGN(engine::ActorKey key, call.actor_key());
  ATE_CO_ASSIGN(core::ExecPlan plan, read_plan(call.request().body));
  const auto begun = call.services.clock.steady();
  Result<core::ExecOutput> output = co_await call.backend().exec(std::move(key), std::move(plan));
  if (!output) {
    co_return fail(std::move(output).error());
  }
  v1alpha1::ExecResult result;
  result.set_exit_code(output->exit_code);
  result.set_timed_out(output->timed_out);
  result.set_stdout(
      encode(std::move(output->out), output->out_truncated, *result.mutable_stdout_encoding()));
  result.set_stdout_truncated(output->out_truncated);
  result.set_stderr(
      encode(std::move(output->err), output->err_truncated, *result.mutable_stderr_encoding()));
  result.set_stderr_truncated(output->err_truncated);
  result.set_duration_ms(
      std::chrono::duration_cast<std::chrono::milliseconds>(call.services.clock.steady() - begun)
          .count());
  std::string body = codec::to_json(result, "ExecResult");
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
