// GET /v1/capacity: what the pools have, where the numbers come from, what a template would get.
#include <fmt/format.h>

#include "api/handlers.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/units.hpp"
#include "ate/http/server.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::api {

namespace {

/// Exact where a unit divides it, else to a tenth.
std::string bytes(std::int64_t value) {
  constexpr double kGi = 1 << 30;
  std::string exact = core::format_bytes(value);
  constexpr std::size_t kReadable = 8;
  return exact.size() <= kReadable ? exact
                                   : fmt::format("{:.1f}Gi", static_cast<double>(value) / kGi);
}

std::string term_value(const v1alpha1::BudgetTerm& term) {
  if (!term.has_value()) {
    return "max";
  }
  if (term.resource() == "cpu") {
    return core::format_cpu(term.value());
  }
  return term.resource() == "pids" ? std::to_string(term.value()) : bytes(term.value());
}

/// `budget 1Gi, 1 CPU - overhead 72Mi = guest 952Mi, 2 vCPUs`
std::string sum(const v1alpha1::TermsStatus& budget, const v1alpha1::GuestStatus& guest) {
  return fmt::format("budget {}, {} CPU - overhead {} = guest {}, {} vCPUs",
                     bytes(budget.budget_memory_bytes()),
                     core::format_cpu(budget.budget_cpu_milli()), bytes(budget.overhead_bytes()),
                     bytes(guest.memory_bytes()), guest.vcpus());
}

void write_explanation(const v1alpha1::Explanation& explain, std::string& out) {
  out += fmt::format("\ntemplate {} generation {}: {}\n", explain.template_().name(),
                     explain.template_().generation(),
                     explain.placeable() ? "would run on " + explain.worker()
                                         : "can't be placed: " + explain.reason());
  for (const v1alpha1::PlacementAnswer& answer : explain.pools()) {
    const std::string place =
        answer.worker().empty() ? "pool " + answer.pool() : "worker " + answer.worker();
    out += fmt::format("  {}: {}\n", place,
                       answer.fits() ? sum(answer.budget(), answer.guest()) : answer.reason());
  }
}

/// For a terminal.
std::string as_text(const v1alpha1::Capacity& capacity) {
  std::string out = fmt::format(
      "host {}, reserve {}, {} CPUs; enforcement {}\n", bytes(capacity.host_memory_bytes()),
      bytes(capacity.host_reserve_bytes()), capacity.host_cpus(),
      capacity.enforcement() == "off" ? "OFF: budgets are recorded, nothing holds them"
                                      : capacity.enforcement());
  if (capacity.has_overcommit()) {
    out += fmt::format("overcommit: memory x {}, CPU x {}\n", capacity.overcommit().memory(),
                       capacity.overcommit().cpu());
  }
  if (!capacity.problem().empty()) {
    out += "the budget of all workers can't be determined: " + capacity.problem() + "\n";
  } else {
    out += fmt::format("all workers together: {}, {} CPU\n", bytes(capacity.tree_memory_bytes()),
                       core::format_cpu(capacity.tree_cpu_milli()));
  }
  for (const v1alpha1::BudgetTerm& term : capacity.terms()) {
    out += fmt::format("  {:<7} {:>12}  {}{}\n", term.resource(), term_value(term), term.source(),
                       term.decides() ? "  <- decides" : "");
  }
  for (const v1alpha1::PoolCapacity& pool : capacity.pools()) {
    out += fmt::format("\npool {} ({}): {} workers, {} assigned, {} free\n", pool.pool(),
                       v1alpha1::SandboxClass_Name(pool.sandbox_class()), pool.workers(),
                       pool.assigned(), pool.free());
    if (pool.has_budget()) {
      out += "  each: " + sum(pool.budget(), pool.guest()) + "\n";
    }
    for (const std::string& problem : pool.problems()) {
      out += "  ! " + problem + "\n";
    }
  }
  if (capacity.has_explain()) {
    write_explanation(capacity.explain(), out);
  }
  return out;
}

}  // namespace

async::Task<Status> get_capacity(Call& call) {
  Backend::Template blueprint;
  if (const auto name = call.query_value("explain")) {
    ATE_CO_ASSIGN(const std::string atespace, call.atespace());
    blueprint = call.backend().find_template(atespace, *name);
    if (blueprint == nullptr) {
      co_return fail(Errc::NotFound, "no ActorTemplate " + *name + " in atespace " + atespace);
    }
  }
  const v1alpha1::Capacity capacity = call.backend().capacity(blueprint.get());
  const auto accept = http::find_header(call.request().headers, "Accept");
  if (accept && accept->find("text/plain") != std::string_view::npos) {
    http::Response response;
    response.content_type = "text/plain; charset=utf-8";
    response.body = as_text(capacity);
    Status sent = co_await call.reply(std::move(response));
    co_return sent;
  }
  std::string body = codec::to_json(capacity, "Capacity");
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
