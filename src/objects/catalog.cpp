#include "ate/objects/catalog.hpp"

#include <google/protobuf/message.h>

#include "ate/v1alpha1/objects.pb.h"
#include "objects/state.hpp"

namespace ate::objects {
namespace {

constexpr std::string_view kIdentityMeta = "catalog/directory";

template <class T>
std::vector<std::shared_ptr<const T>> typed(const std::vector<ObjectPtr>& objects) {
  std::vector<std::shared_ptr<const T>> out;
  out.reserve(objects.size());
  for (const ObjectPtr& object : objects) {
    out.push_back(std::static_pointer_cast<const T>(object));
  }
  return out;
}

}  // namespace

Catalog::State::State(async::Context& loop, store::Store& rows, std::unique_ptr<Sources> from,
                      const Clock& time, Options given, OnChange changed, OnLog logger)
    : context(loop),
      store(rows),
      sources(std::move(from)),
      clock(time),
      options(std::move(given)),
      on_change(std::move(changed)),
      on_log(std::move(logger)),
      writes(loop),
      unpacks(loop),
      tasks(loop, [this](const std::string& name, const std::string& what) {
        on_log(true, name + ": " + what);
      }) {}

Catalog::Catalog(async::Context& context, store::Store& store, std::unique_ptr<Sources> sources,
                 const Clock& clock, Options options, OnChange on_change, OnLog on_log)
    : state_(std::make_shared<State>(context, store, std::move(sources), clock, std::move(options),
                                     std::move(on_change), std::move(on_log))) {}

Catalog::~Catalog() = default;

void Catalog::set_references(const References* references) {
  state_->references = references;
}

void Catalog::set_next_version(NextVersion next) {
  state_->next_version = std::move(next);
}

Status Catalog::load(const store::Loaded& loaded) {
  for (const auto& [key, value] : loaded.meta) {
    if (key == kIdentityMeta) {
      state_->identity = value;
    }
  }
  return state_->book.load(loaded, state_->clock.steady());
}

async::Task<void> Catalog::scan() {
  const std::shared_ptr<State> state = state_;
  co_await state->scan(true);
}

async::Task<void> Catalog::watch() {
  const std::shared_ptr<State> state = state_;
  co_await state->watch();
}

async::Task<void> Catalog::close() {
  const std::shared_ptr<State> state = state_;
  co_await state->tasks.close();
}

std::shared_ptr<const v1alpha1::ActorTemplate> Catalog::find_template(
    const std::string& atespace, const std::string& name, std::int64_t generation) const {
  const Key key{Kind::ActorTemplate, atespace, name};
  return std::static_pointer_cast<const v1alpha1::ActorTemplate>(
      generation == 0 ? state_->book.current(key) : state_->book.version(key, generation));
}

std::shared_ptr<const v1alpha1::WorkerPool> Catalog::find_pool(const std::string& name) const {
  return std::static_pointer_cast<const v1alpha1::WorkerPool>(
      state_->book.current({Kind::WorkerPool, "", name}));
}

std::shared_ptr<const v1alpha1::SandboxConfig> Catalog::find_sandbox_config(
    const std::string& name) const {
  return std::static_pointer_cast<const v1alpha1::SandboxConfig>(
      state_->book.current({Kind::SandboxConfig, "", name}));
}

std::shared_ptr<const v1alpha1::SandboxConfig> Catalog::default_sandbox_config(
    const std::string& sandbox_class) const {
  for (const ObjectPtr& object : state_->book.list(Kind::SandboxConfig, "")) {
    std::string found;
    if (is_default_config(*object, &found) && found == sandbox_class) {
      return std::static_pointer_cast<const v1alpha1::SandboxConfig>(object);
    }
  }
  return nullptr;
}

std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> Catalog::templates(
    const std::string& atespace) const {
  return typed<v1alpha1::ActorTemplate>(state_->book.list(Kind::ActorTemplate, atespace));
}

std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> Catalog::pools() const {
  return typed<v1alpha1::WorkerPool>(state_->book.list(Kind::WorkerPool, ""));
}

std::vector<std::shared_ptr<const v1alpha1::SandboxConfig>> Catalog::sandbox_configs() const {
  return typed<v1alpha1::SandboxConfig>(state_->book.list(Kind::SandboxConfig, ""));
}

async::Task<Result<Catalog::Put>> Catalog::put(Kind kind, std::string atespace, std::string name,
                                               std::string json,
                                               std::optional<std::string> if_match) {
  const std::shared_ptr<State> state = state_;
  co_return co_await state->put(kind, std::move(atespace), std::move(name), std::move(json),
                                std::move(if_match));
}

async::Task<Status> Catalog::remove(Kind kind, std::string atespace, std::string name,
                                    std::optional<std::string> if_match) {
  const std::shared_ptr<State> state = state_;
  co_return co_await state->remove(kind, std::move(atespace), std::move(name), std::move(if_match));
}

async::Task<Result<std::vector<std::pair<std::string, image::Unpacked>>>> Catalog::images(
    std::shared_ptr<const v1alpha1::ActorTemplate> source) {
  const std::shared_ptr<State> state = state_;
  std::vector<std::pair<std::string, image::Unpacked>> out;
  for (int i = 0; i < source->spec().containers_size(); ++i) {
    Result<image::Unpacked> unpacked = co_await state->ensure_image(source, i);
    if (!unpacked) {
      co_return fail(std::move(unpacked).error());
    }
    out.emplace_back(source->spec().containers(i).name(), std::move(*unpacked));
  }
  co_return out;
}

Catalog::Pins Catalog::pins() const {
  Pins pins;
  pins.complete = state_->arriving == 0;
  state_->book.visit([&pins](const ObjectPtr& object) {
    if (const auto* source = dynamic_cast<const v1alpha1::ActorTemplate*>(object.get())) {
      for (const v1alpha1::ImageStatus& image : source->status().images()) {
        pins.images.insert(image.digest());
      }
    } else if (const auto* config = dynamic_cast<const v1alpha1::SandboxConfig*>(object.get())) {
      for (const auto& [name, digest] : config->status().pinned()) {
        pins.assets.insert(digest);
      }
    }
  });
  return pins;
}

std::vector<Catalog::FileStatus> Catalog::files() const {
  return state_->statuses;
}

}  // namespace ate::objects
