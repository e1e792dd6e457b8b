#pragma once

#include <vector>

#include "ate/util/error.hpp"

namespace ate::v1alpha1 {
class ActorTemplate;
class WorkerPool;
class SandboxConfig;
class NodeConfig;
class Actor;
class SnapshotMetadata;
}  // namespace ate::v1alpha1

/// Every rule about a value, in one place; each function returns all problems, not the first.
/// Fields of later work are found here and answered with NotYetSupported.
namespace ate::core {

[[nodiscard]] std::vector<Problem> validate(const v1alpha1::ActorTemplate& object);
[[nodiscard]] std::vector<Problem> validate(const v1alpha1::WorkerPool& object);
[[nodiscard]] std::vector<Problem> validate(const v1alpha1::SandboxConfig& object);
[[nodiscard]] std::vector<Problem> validate(const v1alpha1::NodeConfig& object);
/// Of a create request or the result of a patch.
[[nodiscard]] std::vector<Problem> validate(const v1alpha1::Actor& object);
/// Of a request for a snapshot.
[[nodiscard]] std::vector<Problem> validate(const v1alpha1::SnapshotMetadata& metadata);

/// Of at least one problem: the first one speaks for all.
[[nodiscard]] Error to_error(std::vector<Problem> problems);

/// Fills defaults (atespace, readyz period, restartPolicy, ...), so that equal meaning has an equal
/// digest.
void apply_defaults(v1alpha1::ActorTemplate& object);
void apply_defaults(v1alpha1::WorkerPool& object);
void apply_defaults(v1alpha1::SandboxConfig& object);
void apply_defaults(v1alpha1::NodeConfig& object);

}  // namespace ate::core
