#include "engine/snapshot_rows.hpp"

namespace ate::engine {

namespace {

std::tuple<std::string, std::string, std::int64_t> template_key(const v1alpha1::Snapshot& row) {
  return {row.actor().atespace(), row.template_().name(), row.template_().generation()};
}

}  // namespace

bool stands_alone(const v1alpha1::Snapshot& row) {
  // A golden one that was not tried through counts for nothing.
  return row.kind() == "live" || (row.kind() == "golden" && row.state() == "Ready");
}

void SnapshotRows::put(const Row& row) {
  erase(row->id());
  rows_[row->id()].set(row, true);
  if (row->kind() == "live") {
    ++uses_[template_key(*row)];
  }
}

void SnapshotRows::erase(const std::string& id) {
  const Row row = find(id);
  if (row == nullptr) {
    return;
  }
  const auto used = uses_.find(template_key(*row));
  if (row->kind() == "live" && used != uses_.end() && --used->second == 0) {
    uses_.erase(used);
  }
  rows_.erase(id);
}

SnapshotRows::Row SnapshotRows::find(const std::string& id) const {
  const auto row = rows_.find(id);
  return row == rows_.end() ? nullptr : row->second.get();
}

void SnapshotRows::visit(const std::function<void(const Row&)>& visit) const {
  for (const auto& [id, row] : rows_) {
    visit(row.get());
  }
}

std::size_t SnapshotRows::uses(const std::string& atespace, const std::string& name,
                               std::int64_t generation) const {
  const auto used = uses_.find({atespace, name, generation});
  return used == uses_.end() ? 0 : used->second;
}

}  // namespace ate::engine
