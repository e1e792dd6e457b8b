#include "ate/core/budget.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "ate/util/log.hpp"

namespace ate::core {
namespace {

constexpr std::size_t kShown = 60;
/// v1 writes LONG_MAX rounded down to the page size, which may be 64 KiB.
constexpr std::int64_t kV1Unlimited = std::numeric_limits<std::int64_t>::max() - 0xFFFF;
/// More than any kernel is built for: a list that names more is garbage.
constexpr std::int64_t kMostCpus = 1 << 20;
constexpr std::int64_t kMilli = 1000;

using Value = std::optional<std::int64_t>;  // none: unlimited

struct Path {
  std::string_view directory;
  std::string_view name;
};

Path split(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return {"", path};
  }
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  return text;
}

std::unexpected<Error> bad(std::string_view text, const std::string& why) {
  return fail(Errc::InvalidValue, "\"" + escape_text(text, kShown) + "\" " + why);
}

Result<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return bad(text, "is not a number that the kernel would write here");
  }
  return value;
}

Result<std::int64_t> positive(std::string_view text) {
  ATE_ASSIGN(const std::int64_t value, number(text));
  if (value == 0) {
    return bad(text, "leaves nothing");
  }
  if (value < 0) {
    return bad(text, "is negative");
  }
  return value;
}

Result<Value> or_max(std::string_view text) {
  if (text == "max") {
    return Value();
  }
  ATE_ASSIGN(const std::int64_t value, positive(text));
  return Value(value);
}

Result<Value> v1_bytes(std::string_view text) {
  ATE_ASSIGN(const std::int64_t value, number(text));
  if (value == -1 || value >= kV1Unlimited) {
    return Value();
  }
  return or_max(text);
}

/// Rounded down: a budget is never more than what the kernel gives.
Result<Value> milli_cpus(std::int64_t quota, std::int64_t period) {
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(quota, kMilli, &scaled)) {
    return bad(std::to_string(quota), "is too large for a quota in microseconds");
  }
  if (scaled < period) {
    return bad(std::to_string(quota) + " " + std::to_string(period), "is less than a milli-CPU");
  }
  return Value(scaled / period);
}

Result<Value> cpu_max(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return bad(text, "is not \"quota period\"");
  }
  ATE_ASSIGN(const std::int64_t period, positive(text.substr(space + 1)));
  ATE_ASSIGN(const Value quota, or_max(text.substr(0, space)));
  return quota ? milli_cpus(*quota, period) : Result<Value>(Value());
}

/// The file `name` beside `path`; null when it was not there.
const std::string* beside(const LimitFiles& files, const Path& path, std::string_view name) {
  const auto found = std::ranges::find_if(files, [&](const auto& file) {
    const Path other = split(file.first);
    return other.directory == path.directory && other.name == name;
  });
  return found == files.end() ? nullptr : &found->second;
}

Result<Value> v1_quota(const LimitFiles& files, const Path& path, std::string_view text) {
  ATE_ASSIGN(const std::int64_t quota, number(text));
  if (quota == -1) {
    return Value();
  }
  ATE_ASSIGN(const std::int64_t checked, positive(text));
  const std::string* period = beside(files, path, "cpu.cfs_period_us");
  if (period == nullptr) {
    return fail(Errc::InvalidValue, "cpu.cfs_period_us is missing beside it");
  }
  ATE_ASSIGN(const std::int64_t length, positive(trim(*period)));
  return milli_cpus(checked, length);
}

Result<Value> cpuset(std::string_view text) {
  ATE_ASSIGN(const std::int64_t cpus, count_cpus(std::string(text)));
  return Value(cpus * kMilli);
}

bool is_hugetlb(std::string_view name, std::string_view suffix) {
  return name.starts_with("hugetlb.") && name.ends_with(suffix) &&
         name.find('.', std::string_view("hugetlb.").size()) == name.size() - suffix.size();
}

struct Reading {
  Resource resource = Resource::Memory;
  Value value;
};

/// None: the file says nothing about a budget.
Result<std::optional<Reading>> interpret(const LimitFiles& files, const Path& path,
                                         std::string_view text) {
  Reading reading;
  if (path.name == "memory.max" || path.name == "memory.high") {
    ATE_ASSIGN(reading.value, or_max(text));
  } else if (path.name == "memory.limit_in_bytes") {
    ATE_ASSIGN(reading.value, v1_bytes(text));
  } else if (path.name == "cpu.max") {
    reading.resource = Resource::Cpu;
    ATE_ASSIGN(reading.value, cpu_max(text));
  } else if (path.name == "cpu.cfs_quota_us") {
    reading.resource = Resource::Cpu;
    ATE_ASSIGN(reading.value, v1_quota(files, path, text));
  } else if (path.name == "cpuset.cpus.effective" || path.name == "cpuset.effective_cpus" ||
             (path.name == "cpuset.cpus" &&
              beside(files, path, "cpuset.cpus.effective") == nullptr &&
              beside(files, path, "cpuset.effective_cpus") == nullptr)) {
    reading.resource = Resource::Cpu;
    ATE_ASSIGN(reading.value, cpuset(text));
  } else if (path.name == "pids.max") {
    reading.resource = Resource::Pids;
    ATE_ASSIGN(reading.value, or_max(text));
  } else if (is_hugetlb(path.name, ".max")) {
    // 0 is an ordinary limit of pages that nobody uses here.
    reading.resource = Resource::Hugetlb;
    ATE_ASSIGN(reading.value, text == "0" ? Result<Value>(Value(0)) : or_max(text));
  } else if (is_hugetlb(path.name, ".limit_in_bytes")) {
    reading.resource = Resource::Hugetlb;
    ATE_ASSIGN(reading.value, text == "0" ? Result<Value>(Value(0)) : v1_bytes(text));
  } else {
    return std::optional<Reading>();
  }
  return std::optional<Reading>(reading);
}

void lower(std::optional<std::int64_t>& least, std::int64_t value) {
  least = least ? std::min(*least, value) : value;
}

void account(EffectiveBudget& sum, const Reading& reading, std::string_view path) {
  sum.terms.push_back({reading.resource, reading.value, std::string(path)});
  if (!reading.value) {
    return;
  }
  const std::size_t at = sum.terms.size() - 1;
  const std::int64_t value = *reading.value;
  switch (reading.resource) {
    case Resource::Memory:
      if (sum.budget.memory_bytes == 0 || value < sum.budget.memory_bytes) {
        sum.budget.memory_bytes = value;
        sum.memory_term = at;
      }
      break;
    case Resource::Cpu:
      if (sum.budget.cpu_milli == 0 || value < sum.budget.cpu_milli) {
        sum.budget.cpu_milli = value;
        sum.cpu_term = at;
      }
      break;
    case Resource::Pids:
      lower(sum.pids, value);
      break;
    case Resource::Hugetlb: {
      const std::string_view name = split(path).name.substr(std::string_view("hugetlb.").size());
      const std::string size(name.substr(0, name.find('.')));
      const auto [known, fresh] = sum.hugetlb.emplace(size, value);
      known->second = std::min(known->second, value);
      break;
    }
  }
}

}  // namespace

Result<std::int64_t> count_cpus(const std::string& list) {
  std::string_view rest = list;
  std::int64_t count = 0;
  std::int64_t next = 0;  // the kernel writes ranges in order
  if (rest.empty()) {
    return fail(Errc::InvalidValue, "the list of CPUs is empty: nothing can run there");
  }
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view range = rest.substr(0, comma);
    const std::size_t dash = range.find('-');
    ATE_ASSIGN(const std::int64_t first, number(range.substr(0, dash)));
    std::int64_t last = first;
    if (dash != std::string_view::npos) {
      ATE_ASSIGN(last, number(range.substr(dash + 1)));
    }
    if (first < next || last < first || last >= kMostCpus) {
      return bad(list, "is not a list of CPUs");
    }
    count += last - first + 1;
    next = last + 1;
    if (comma == std::string_view::npos) {
      return count;
    }
    rest.remove_prefix(comma + 1);
  }
}

Result<EffectiveBudget> effective_budget(const LimitFiles& files, const HostCapacity& host) {
  const std::int64_t usable = host.memory_bytes - host.reserve_bytes;
  if (host.memory_bytes <= 0 || host.cpus <= 0 || host.reserve_bytes < 0) {
    return fail(Errc::InvalidValue, "the host's own memory or CPU count is not known");
  }
  if (usable <= 0) {
    return fail(Errc::InvalidValue,
                "spec.hostReserve.memory of the NodeConfig (" + std::to_string(host.reserve_bytes) +
                    " bytes) leaves nothing of the host's " + std::to_string(host.memory_bytes));
  }
  EffectiveBudget sum;
  for (const auto& [path, raw] : files) {
    Result<std::optional<Reading>> reading = interpret(files, split(path), trim(raw));
    if (!reading) {
      return fail(std::move(reading).error().context(path));
    }
    if (*reading) {
      account(sum, **reading, path);
    }
  }
  account(sum, {Resource::Memory, usable}, "host");
  account(sum, {Resource::Cpu, host.cpus * kMilli}, "host");
  return sum;
}

}  // namespace ate::core
