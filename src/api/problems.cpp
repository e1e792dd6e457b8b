#include "ate/api/problems.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ate/core/json.hpp"

namespace ate::api {

namespace {

/// In the order of Errc, so that problem_kind() is an index (checked by a test).
constexpr std::array kKinds{
    ProblemKind{Errc::Malformed, "malformed", 400, "Malformed request",
                "The request cannot be read: broken JSON or YAML, a bad path, query parameter or "
                "header. `detail` says where. Nothing was changed; correct the request and send it "
                "again."},
    ProblemKind{Errc::UnknownField, "unknown-field", 400, "Unknown field",
                "The document or the query names something that does not exist here, usually a "
                "typing error. `field` is its path; `line` and `column` point into the file. "
                "Unknown fields are refused, never ignored."},
    ProblemKind{Errc::InvalidType, "invalid-type", 400, "Wrong type",
                "A field has a value of the wrong JSON type, for example text where a number or a "
                "list is expected. `field` is its path."},
    ProblemKind{Errc::NotFound, "not-found", 404, "No such object",
                "There is no object of that name or id. Names are looked up in the atespace of "
                "?atespace= (through the proxy: of the header Ate-Atespace), which is `default` "
                "when not given."},
    ProblemKind{Errc::NoSuchRoute, "no-such-route", 404, "No such route",
                "Nothing is served at that path. The interface is described at /v1/openapi.json; "
                "the only version is v1."},
    ProblemKind{Errc::MethodNotAllowed, "method-not-allowed", 405, "Method not allowed",
                "The path exists, but not with that method. The header Allow lists those it "
                "knows."},
    ProblemKind{Errc::RequestTimeout, "request-timeout", 408, "Request took too long",
                "The head of the request did not arrive within 10 seconds, or its body within 30. "
                "The connection was closed."},
    ProblemKind{Errc::AlreadyExists, "already-exists", 409, "Already exists",
                "An object of that name exists. Creating is never a silent update, even when both "
                "are equal; use PATCH or another name."},
    ProblemKind{Errc::StateConflict, "state-conflict", 409, "Not possible in this state",
                "The actor's state does not allow this call. `detail` names the state and the way "
                "out of it: an EXITED or CRASHED actor is brought back with revert, or started "
                "cold with resume {\"boot\": true}."},
    ProblemKind{Errc::OperationInProgress, "operation-in-progress", 409,
                "Another operation is running",
                "Another verb is at work on this actor; nothing is queued. `operation` and the "
                "header Location name it: wait for it, then try again. DELETE ?force cancels it."},
    ProblemKind{Errc::FileOwned, "file-owned", 409, "Object is owned by a file",
                "The object comes from a file in the configuration directory (`file`) and can only "
                "be changed there."},
    ProblemKind{Errc::InUse, "in-use", 409, "Still in use",
                "Something still names the object; `usedBy` lists what. Remove or move that "
                "first."},
    ProblemKind{Errc::SnapshotCorrupt, "snapshot-corrupt", 409, "Snapshot is damaged",
                "The files of the snapshot do not match its manifest or the manifest does not "
                "match the record. The actor stays in the state it came from. Nothing falls back "
                "to an older snapshot silently: look at the actor's other snapshots, revert, or "
                "resume with {\"boot\": true}."},
    ProblemKind{Errc::SnapshotIncompatible, "snapshot-incompatible", 409,
                "Snapshot does not fit this host",
                "The snapshot needs something that this host or worker does not have: CPU "
                "features, a kernel, memory, a runtime. `field` names it, the other members give "
                "both values. The snapshot itself is unharmed."},
    ProblemKind{Errc::IdempotencyKeyInUse, "idempotency-key-in-use", 409,
                "Outcome of an earlier request is not known",
                "A request with this Idempotency-Key is still at work (try again after Retry-After "
                "for its answer), or the daemon ended while it ran and nothing tells whether it "
                "had its effect: `detail` says which. Nothing was done for this request."},
    ProblemKind{Errc::PreconditionFailed, "precondition-failed", 412, "Precondition failed",
                "The object was changed since it was read (If-Match), or exists although it must "
                "not (If-None-Match: *). Read it again and repeat the change."},
    ProblemKind{Errc::BodyTooLarge, "body-too-large", 413, "Body too large",
                "Request bodies are limited to 1 MiB. Requests through the proxy are not."},
    ProblemKind{Errc::UnsupportedMediaType, "unsupported-media-type", 415,
                "Unsupported content type",
                "Bodies are JSON: application/json, application/merge-patch+json for PATCH, or no "
                "content type. What curl -d sends by itself is taken as JSON too. /v1/validate "
                "also takes application/yaml."},
    ProblemKind{Errc::InvalidValue, "invalid-value", 422, "Invalid value",
                "The document is well-formed, but values break a rule. `problems` lists every "
                "finding with the path of its field."},
    ProblemKind{Errc::NotYetSupported, "not-yet-supported", 422, "Not yet supported",
                "The field, value or call is part of the design but not built into this version. "
                "It is refused so that nothing is ignored silently."},
    ProblemKind{Errc::BudgetTooSmall, "budget-too-small", 422,
                "Worker budget too small for a guest",
                "What is left of a worker's budget after the overhead of the sandbox is below the "
                "smallest guest (`floorBytes`). Raise the limit that `field` names."},
    ProblemKind{Errc::NeverFits, "never-fits", 422, "Can never fit",
                "No worker of this node, free or not, could hold the actor as it is declared. "
                "Change the template's limits or selector, or add a pool."},
    ProblemKind{Errc::ImageInvalid, "image-invalid", 422, "Image cannot be used",
                "The image reference cannot be read, is damaged, or breaks a rule of the OCI image "
                "format. `detail` names the layer or entry."},
    ProblemKind{Errc::AssetInvalid, "asset-invalid", 422, "Sandbox binary cannot be used",
                "A binary or guest asset of a SandboxConfig is missing, has another checksum than "
                "declared, or does not work on this host."},
    ProblemKind{Errc::IdempotencyKeyReused, "idempotency-key-reused", 422,
                "Idempotency-Key belongs to another request",
                "The key was used within 24 hours for a request with another method, target, "
                "If-Match or body. Nothing was done; a new request takes a new key."},
    ProblemKind{Errc::SecretUnusable, "secret-unusable", 422, "Secret file cannot be used",
                "A file that a template's env names by valueFrom is missing, outside of "
                "spec.secretsDir, not a regular file, writable or readable by others, or too "
                "large. `field` is its place in the template. What it holds is never shown."},
    ProblemKind{
        Errc::UpgradeRequired, "upgrade-required", 426, "Upgrade required",
        "A tunnel is no HTTP: ask for it with the headers `Connection: Upgrade` and "
        "`Upgrade: tcp` on HTTP/1.1, without a body. The answer is 101, and then bytes pass "
        "both ways."},
    ProblemKind{Errc::TooManyRequests, "too-many-requests", 429, "Too many requests",
                "Too many requests wait for this actor to wake. Try again after Retry-After."},
    ProblemKind{Errc::HeaderTooLarge, "header-too-large", 431, "Header too large",
                "The head of a request is limited to 64 KiB and 100 fields."},
    ProblemKind{Errc::Internal, "internal", 500, "Internal error",
                "Something failed that should not: a fault of the host or of ate-noded. The "
                "daemon's log has the details under `requestId`."},
    ProblemKind{Errc::RuntimeFailed, "runtime-failed", 500, "Sandbox runtime failed",
                "The sandbox runtime ended with an error; `detail` carries what it printed. The "
                "actor is back in the state it came from, or CRASHED with a reason."},
    ProblemKind{Errc::NotReady, "not-ready", 504, "Actor did not become ready",
                "The readiness probe of the template did not succeed within its timeout. Look at "
                "the actor's logs; raise readyz.timeout if it only needs longer."},
    ProblemKind{Errc::RestoreFailed, "restore-failed", 500, "Restore failed",
                "The sandbox could not be restored from the snapshot that was chosen. The actor is "
                "back in the state it came from and the snapshot is kept; resume may be tried "
                "again. Revert or resume {\"boot\": true} are the explicit ways around it."},
    ProblemKind{Errc::UpstreamFailed, "upstream-failed", 502, "Actor did not answer",
                "The actor runs, but nothing listens on that port, or it broke off the connection "
                "before its answer began."},
    ProblemKind{Errc::NoFreeWorker, "no-free-worker", 503, "No free worker",
                "Every worker that could hold the actor is taken. Try again after Retry-After, "
                "suspend another actor, or raise the pool's replicas."},
    ProblemKind{Errc::Unavailable, "unavailable", 503, "Not available now",
                "The daemon is starting or stopping, or what the call needs was found unusable on "
                "this host; `detail` and /readyz say which."},
    ProblemKind{Errc::TooManyConnections, "too-many-connections", 503, "Too many connections",
                "The limit of connections or of open streams (proxy, followers) is reached. Close "
                "some or try again later."},
    ProblemKind{Errc::DeadlineExceeded, "deadline-exceeded", 504, "Deadline exceeded",
                "A step did not end within its deadline; `detail` names it."},
    ProblemKind{Errc::Cancelled, "cancelled", 503, "Cancelled",
                "The operation was ended before it was done, by DELETE ?force or because the "
                "daemon stops."},
    ProblemKind{Errc::DiskFull, "disk-full", 507, "Not enough disk space",
                "There is not enough free space for the snapshot or the write above the reserve "
                "(NodeConfig.spec.diskReserve). The actor goes on running. Free some space, delete "
                "snapshots, then try again."},
};

// What an answer tells of its request has bounds of its own: a body of 1 MiB may hold thousands of
// mistakes, and one of them may be a text of 1 MiB.
constexpr std::size_t kMaxDetailBytes = 4096;
constexpr std::size_t kMaxProblems = 100;

std::string clip_detail(std::string_view text) {
  if (text.size() <= kMaxDetailBytes) {
    return std::string(text);
  }
  std::size_t end = kMaxDetailBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
    --end;  // never in the middle of a character
  }
  return std::string(text.substr(0, end)) + "...";
}

std::string type_path(const ProblemKind& kind) {
  return "/v1/problems/" + std::string(kind.slug);
}

void add_place(core::JsonObject& object, const Problem& problem) {
  if (!problem.field.empty()) {
    object.text("field", problem.field);
  }
  if (problem.line != 0) {
    object.number("line", problem.line);
    object.number("column", problem.column);
  }
  if (!problem.file.empty()) {
    object.text("file", problem.file);
  }
}

void add_member(core::JsonObject& object, const std::string& key, const ErrorValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    object.number(key, *number);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    object.text(key, *text);
  } else if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    object.strings(key, *list);
  }
}

/// Members that this file writes by itself; an error's member of the same name would be a duplicate
/// key.
bool is_reserved(std::string_view key) {
  static constexpr std::array<std::string_view, 7> kReserved{
      "type", "title", "status", "detail", "instance", "problems", "requestId"};
  return std::find(kReserved.begin(), kReserved.end(), key) != kReserved.end();
}

const ErrorValue* find_member(const Error& error, std::string_view key) {
  for (const auto& [name, value] : error.members()) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

/// The place of the error as a whole: its own field, else that of the first finding.
Problem place_of(const Error& error) {
  Problem place;
  if (!error.problems().empty()) {
    place = error.problems().front();
  }
  if (!error.field().empty()) {
    place.field = error.field();
  }
  return place;
}

bool names(const Problem& place, std::string_view key) {
  return (key == "field" && !place.field.empty()) || (key == "file" && !place.file.empty()) ||
         ((key == "line" || key == "column") && place.line != 0);
}

std::string join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    out += (out.empty() ? "" : ", ") + item;
  }
  return out;
}

void add_headers(const Error& error, http::Response& response) {
  if (const ErrorValue* value = find_member(error, "retryAfterSeconds")) {
    if (const auto* seconds = std::get_if<std::int64_t>(value)) {
      response.headers.emplace_back("Retry-After", std::to_string(*seconds));
    }
  }
  if (const ErrorValue* value = find_member(error, "operation")) {
    if (const auto* path = std::get_if<std::string>(value)) {
      response.headers.emplace_back("Location",
                                    path->starts_with('/') ? *path : "/v1/operations/" + *path);
    }
  }
  if (error.code() == Errc::UpgradeRequired) {
    response.headers.emplace_back("Connection", "Upgrade");
    response.headers.emplace_back("Upgrade", "tcp");
  }
  if (const ErrorValue* value = find_member(error, "allow")) {
    if (const auto* methods = std::get_if<std::vector<std::string>>(value)) {
      response.headers.emplace_back("Allow", join(*methods));
    }
  }
}

}  // namespace

std::span<const ProblemKind> problem_kinds() {
  return kKinds;
}

const ProblemKind& problem_kind(Errc code) {
  return kKinds.at(static_cast<std::size_t>(code));
}

const ProblemKind* find_problem_kind(std::string_view slug) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const ProblemKind& kind) { return kind.slug == slug; });
  return found == kKinds.end() ? nullptr : &*found;
}

std::string problem_document(const Error& error, std::string_view instance,
                             std::string_view request_id) {
  const ProblemKind& kind = problem_kind(error.code());
  core::JsonObject object;
  object.text("type", type_path(kind)).text("title", kind.title).number("status", kind.status);
  object.text("detail", clip_detail(error.message()));
  const ErrorValue* own = find_member(error, "instance");
  const auto* own_instance = own == nullptr ? nullptr : std::get_if<std::string>(own);
  if (own_instance != nullptr) {
    instance = *own_instance;
  }
  if (!instance.empty()) {
    object.text("instance", instance);
  }
  const Problem place = place_of(error);
  add_place(object, place);
  for (const auto& [key, value] : error.members()) {
    if (is_reserved(key) || names(place, key)) {
      continue;
    }
    const auto* text = std::get_if<std::string>(&value);
    if (key == "operation" && text != nullptr && !text->starts_with('/')) {
      object.text(key, "/v1/operations/" + *text);
    } else {
      add_member(object, key, value);
    }
  }
  if (!error.problems().empty()) {
    object.raw("problems", problem_list(error.problems()));
    if (error.problems().size() > kMaxProblems) {
      object.number("problemsTotal", static_cast<std::int64_t>(error.problems().size()));
    }
  }
  if (!request_id.empty()) {
    object.text("requestId", request_id);
  }
  return std::move(object).finish();
}

std::string problem_list(const std::vector<Problem>& problems) {
  std::vector<std::string> items;
  items.reserve(std::min(problems.size(), kMaxProblems));
  for (const Problem& problem : problems) {
    if (items.size() == kMaxProblems) {
      break;
    }
    core::JsonObject item;
    item.text("type", type_path(problem_kind(problem.code)));
    add_place(item, problem);
    item.text("detail", clip_detail(problem.detail));
    items.push_back(std::move(item).finish());
  }
  return core::json_array(items);
}

http::Response render_error(const Error& error, const http::Request* request) {
  http::Response response;
  response.status = problem_kind(error.code()).status;
  response.content_type = "application/problem+json";
  response.body = request == nullptr ? problem_document(error, {}, {})
                                     : problem_document(error, request->path, request->request_id);
  add_headers(error, response);
  return response;
}

}  // namespace ate::api
