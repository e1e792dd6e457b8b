// One scan of the directory: read, arrange, pin, decide, store, publish.
#include <google/protobuf/message.h>

#include <utility>

#include "ate/util/scope_exit.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "objects/state.hpp"

namespace ate::objects {
namespace {

constexpr std::chrono::seconds kRetiredGrace{60};
constexpr std::string_view kIdentityMeta = "catalog/directory";

}  // namespace

async::Task<void> Catalog::State::settle(Scan& scan, std::size_t index) {
  Candidate& candidate = scan.candidates[index];
  const ObjectPtr now = book.current(candidate.key);
  // Tags are resolved when a file changed and on request, not whenever the directory is looked at.
  const bool may_keep = now != nullptr && !scan.forced &&
                        book.source(candidate.key) == candidate.source && has_assets(*now);
  const auto known = settled.find(candidate.key);
  if (may_keep && known != settled.end() && known->second == candidate.file_digest) {
    co_return;
  }
  candidate.object = std::shared_ptr<Message>(copy_of(*candidate.from));
  // The first scan after a start: nothing changed when the spec is what the store has.
  if (may_keep && known == settled.end() && spec_bytes(*now) == spec_bytes(*candidate.object)) {
    copy_pins(*now, *candidate.object);
    co_return;
  }
  if (!std::exchange(scan.pins, true)) {
    ++arriving;
  }
  std::vector<Problem> problems = co_await pin(candidate.object, scan.resolved);
  for (Problem& problem : problems) {
    flag(scan, candidate, std::move(problem));
  }
  if (!problems.empty()) {
    candidate.object.reset();  // the last good one stays
  }
}

void Catalog::State::check_defaults(Scan& scan) {
  std::set<Key> offered;
  for (const Candidate& candidate : scan.candidates) {
    offered.insert(candidate.key);
  }
  // What would be in force: the new objects over the old ones, without those that are going.
  std::map<Key, ObjectPtr> effective;
  for (const Key& key : book.keys()) {
    const bool going = scan.clean && book.source(key) != kApiSource && !offered.contains(key);
    if (key.kind == Kind::SandboxConfig && !going) {
      effective[key] = book.current(key);
    }
  }
  std::string sandbox_class;
  for (const Candidate& candidate : scan.candidates) {
    if (candidate.object != nullptr && candidate.key.kind == Kind::SandboxConfig &&
        !is_default_config(*candidate.object, &sandbox_class)) {
      effective[candidate.key] = candidate.object;
    }
  }
  for (Candidate& candidate : scan.candidates) {
    if (candidate.object == nullptr || !is_default_config(*candidate.object, &sandbox_class)) {
      continue;
    }
    std::string other;
    for (const auto& [key, object] : effective) {
      std::string other_class;
      if (key != candidate.key && is_default_config(*object, &other_class) &&
          other_class == sandbox_class) {
        other = key.name;
      }
    }
    if (other.empty()) {
      effective[candidate.key] = candidate.object;
      continue;
    }
    Problem problem;
    problem.field = "spec.default";
    problem.detail =
        "SandboxConfig " + other + " is the default of class " + sandbox_class + " already";
    flag(scan, candidate, std::move(problem));
    candidate.object.reset();
  }
}

void Catalog::State::plan_puts(Scan& scan) {
  for (const Candidate& candidate : scan.candidates) {
    if (candidate.object == nullptr) {
      continue;
    }
    const auto stamp = [this] { return make_stamp(); };
    if (auto change = book.plan_put(candidate.key, *candidate.object, candidate.source, stamp)) {
      scan.changes.push_back(std::move(*change));
    }
  }
}

void Catalog::State::plan_removals(Scan& scan) {
  std::set<Key> offered;
  for (const Candidate& candidate : scan.candidates) {
    offered.insert(candidate.key);
  }
  const SteadyTime now = clock.steady();
  std::map<Key, SteadyTime> still_missing;
  for (const Key& key : book.keys()) {
    if (book.source(key) == kApiSource || offered.contains(key) ||
        scan.key_problems.contains(key)) {
      continue;
    }
    const auto since = missing.find(key);
    if (since == missing.end()) {
      // An erroneous scan proves no absence.
      if (scan.clean) {
        still_missing[key] = now;
      }
      continue;
    }
    if (scan.clean && now - since->second >= options.absence) {
      scan.changes.push_back(book.plan_remove(key));
      continue;
    }
    still_missing[key] = since->second;
  }
  missing = std::move(still_missing);
}

async::Task<Status> Catalog::State::store_scan(Scan& scan) {
  if (references != nullptr) {
    scan.pruned = book.prunable(
        clock.steady(), kRetiredGrace, [this](const Key& key, std::int64_t generation) {
          return references->template_in_use(key.atespace, key.name, generation);
        });
  }
  store::Batch batch;
  for (const Change& change : scan.changes) {
    add_to(batch, change);
  }
  for (const auto& [key, generation] : scan.pruned) {
    store::ObjectRow row;
    row.kind = name(key.kind);
    row.atespace = key.atespace;
    row.name = key.name;
    row.generation = generation;
    batch.delete_objects.push_back(std::move(row));
  }
  const bool new_identity = !scan.read.files.empty() && scan.read.identity != identity;
  if (new_identity) {
    batch.put_meta.emplace_back(kIdentityMeta, scan.read.identity);
  }
  if (scan.changes.empty() && scan.pruned.empty() && !new_identity) {
    co_return Status{};
  }
  Status stored = co_await store.commit(std::move(batch));
  if (stored && new_identity) {
    identity = scan.read.identity;
  }
  co_return stored;
}

void Catalog::State::publish(const Scan& scan) {
  for (const Candidate& candidate : scan.candidates) {
    if (candidate.object != nullptr && candidate.source != kApiSource) {
      settled[candidate.key] = candidate.file_digest;
    }
  }
  for (const Change& change : scan.changes) {
    apply(change);
  }
  for (const auto& [key, generation] : scan.pruned) {
    book.forget(key, generation);
  }
}

void Catalog::State::show_files(const Scan& scan) {
  std::map<std::string, FileStatus> by_path;
  for (const auto& [path, problems] : scan.file_problems) {
    by_path[path].path = path;
    by_path[path].problems = problems;
  }
  for (const auto& [name, cached] : scan.read.files) {
    by_path[cached.file->path].digest = cached.file->digest;
  }
  for (const Key& key : book.keys()) {
    const auto it = by_path.find(book.source(key));
    if (it != by_path.end()) {
      it->second.objects.push_back(text_of(key));
    }
  }
  statuses.clear();
  for (auto& [path, status] : by_path) {
    statuses.push_back(std::move(status));
  }
}

async::Task<void> Catalog::State::scan(bool forced) {
  async::Mutex::Lock lock = co_await writes.lock();
  Scan scan;
  scan.forced = forced && scanned;
  const ScopeExit arrived([this, &scan] { arriving -= scan.pins ? 1 : 0; });
  auto job = [path = options.directory, before = cache]() { return read_directory(path, before); };
  scan.read = co_await async::run_blocking(context, std::move(job));
  arrange(scan);
  for (std::size_t i = 0; i < scan.candidates.size(); ++i) {
    co_await settle(scan, i);
  }
  check_defaults(scan);
  plan_puts(scan);
  plan_removals(scan);
  Status stored = co_await store_scan(scan);
  if (stored) {
    publish(scan);
  } else {
    on_log(true,
           "objects of " + options.directory + " could not be stored: " + stored.error().message());
  }
  retry = !stored || scan.read.retry;
  if (scan.read.error.empty()) {
    cache = scan.read.files;
  }
  show_problems(scan);
  show_files(scan);
  log_problems(scan.file_problems);
  scanned = true;
  start_unpacks();
}

}  // namespace ate::objects
