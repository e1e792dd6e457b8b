#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ate/engine/worker_groups.hpp"

namespace ate::test {

/// Cgroups of workers in memory. Called on the pool, looked at by the test.
class FakeWorkerGroups final : public engine::WorkerGroups {
 public:
  [[nodiscard]] Result<core::LimitFiles> read(const std::string& worker) const override {
    const std::scoped_lock lock(mutex);
    if (!error.empty() && worker == error_of) {
      return fail(Errc::Internal, error);
    }
    core::LimitFiles out = tree;
    for (const auto& [name, text] : files) {
      if (name.starts_with(worker + "/")) {
        out.emplace_back("/tree/" + name, text);
      }
    }
    return out;
  }

  [[nodiscard]] Status apply(const std::string& worker,
                             const core::CgroupLimits& limits) const override {
    const std::scoped_lock lock(mutex);
    if (!apply_error.empty()) {
      return fail(Errc::Unavailable, apply_error);
    }
    files[worker + "/memory.max"] = std::to_string(limits.memory_bytes);
    return {};
  }

  [[nodiscard]] Status remove(const std::string& worker) const override {
    const std::scoped_lock lock(mutex);
    files.erase(worker + "/memory.max");
    return {};
  }

  void write(const std::string& file, const std::string& text) const {
    const std::scoped_lock lock(mutex);
    files[file] = text;
  }

  [[nodiscard]] std::string at(const std::string& file) const {
    const std::scoped_lock lock(mutex);
    const auto found = files.find(file);
    return found == files.end() ? std::string() : found->second;
  }

  mutable std::mutex mutex;
  core::LimitFiles tree{{"/tree/memory.max", "8589934592"}, {"/tree/cpu.max", "max 100000"}};
  mutable std::map<std::string, std::string> files;  // "<worker>/memory.max" -> text
  std::string error;                                 // of reading `error_of`
  std::string error_of;
  std::string apply_error;
};

}  // namespace ate::test
