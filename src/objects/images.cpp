// Pins: images resolved to digests, assets imported; and the unpacking that follows.
#include <google/protobuf/message.h>

#include <algorithm>

#include "ate/v1alpha1/objects.pb.h"
#include "objects/problem_type.hpp"
#include "objects/state.hpp"

namespace ate::objects {
namespace {

/// What the caller can do nothing about by changing the template stays as it is.
bool keeps_code(Errc code) {
  return code == Errc::DiskFull || code == Errc::NotYetSupported || code == Errc::Unavailable ||
         code == Errc::Cancelled || code == Errc::DeadlineExceeded || code == Errc::InvalidValue;
}

}  // namespace

std::string image_field(int index) {
  return "spec.containers[" + std::to_string(index) + "].image";
}

Problem pin_problem(const Error& error, Errc code, std::string field) {
  Problem problem;
  problem.code = keeps_code(error.code()) ? error.code() : code;
  problem.field = std::move(field);
  problem.detail = error.message();
  return problem;
}

async::Task<std::vector<Problem>> Catalog::State::pin(std::shared_ptr<Message> object,
                                                      Resolved& resolved) {
  std::vector<Problem> problems;
  if (auto* source = dynamic_cast<v1alpha1::ActorTemplate*>(object.get())) {
    source->mutable_status()->clear_images();
    for (int i = 0; i < source->spec().containers_size(); ++i) {
      std::string reference = source->spec().containers(i).image();
      auto known = resolved.find(reference);
      if (known == resolved.end()) {
        Result<std::string> found = co_await sources->resolve(reference);
        known = resolved.emplace(std::move(reference), std::move(found)).first;
      }
      const Result<std::string>& digest = known->second;
      if (!digest) {
        problems.push_back(pin_problem(digest.error(), Errc::ImageInvalid, image_field(i)));
        continue;
      }
      v1alpha1::ImageStatus& image = *source->mutable_status()->add_images();
      image.set_container(source->spec().containers(i).name());
      image.set_reference(source->spec().containers(i).image());
      image.set_digest(*digest);
      image.set_state(sources->has_image(*digest) ? "Ready" : "Pending");
    }
  }
  if (auto* config = dynamic_cast<v1alpha1::SandboxConfig*>(object.get())) {
    config->mutable_status()->clear_pinned();
    const std::map<std::string, v1alpha1::Asset> sorted(config->spec().assets().begin(),
                                                        config->spec().assets().end());
    for (const auto& [name, asset] : sorted) {
      std::string path = asset.path();
      std::string expected = asset.sha256();
      Result<std::string> digest =
          co_await sources->import_asset(std::move(path), std::move(expected));
      if (!digest) {
        problems.push_back(
            pin_problem(digest.error(), Errc::AssetInvalid, "spec.assets." + name + ".path"));
        continue;
      }
      (*config->mutable_status()->mutable_pinned())[name] = *digest;
    }
  }
  co_return problems;
}

void Catalog::State::copy_pins(const Message& from, Message& to) {
  if (const auto* source = dynamic_cast<const v1alpha1::ActorTemplate*>(&from)) {
    auto& target = dynamic_cast<v1alpha1::ActorTemplate&>(to);
    *target.mutable_status()->mutable_images() = source->status().images();
  }
  if (const auto* config = dynamic_cast<const v1alpha1::SandboxConfig*>(&from)) {
    auto& target = dynamic_cast<v1alpha1::SandboxConfig&>(to);
    *target.mutable_status()->mutable_pinned() = config->status().pinned();
  }
}

bool Catalog::State::has_assets(const Message& object) const {
  const auto* config = dynamic_cast<const v1alpha1::SandboxConfig*>(&object);
  if (config == nullptr) {
    return true;
  }
  const auto& pinned = config->status().pinned();
  return std::all_of(pinned.begin(), pinned.end(),
                     [this](const auto& entry) { return sources->has_asset(entry.second); });
}

void Catalog::State::show_image(const v1alpha1::ActorTemplate& source, int index,
                                const std::string& state, const std::string& error) {
  const Key key = key_of(Kind::ActorTemplate, source);
  const std::int64_t generation = source.metadata().generation();
  const ObjectPtr now = book.version(key, generation);
  const auto* shown = dynamic_cast<const v1alpha1::ActorTemplate*>(now.get());
  if (shown == nullptr || index >= shown->status().images_size() ||
      (shown->status().images(index).state() == state &&
       shown->status().images(index).error() == error)) {
    return;
  }
  auto copy = std::make_shared<v1alpha1::ActorTemplate>(*shown);
  v1alpha1::TemplateStatus& status = *copy->mutable_status();
  status.mutable_images(index)->set_state(state);
  status.mutable_images(index)->set_error(error);
  const auto all = [&status](const std::string& wanted) {
    return std::all_of(status.images().begin(), status.images().end(),
                       [&wanted](const auto& image) { return image.state() == wanted; });
  };
  status.mutable_object()->set_ready(state == "Failed" ? "False"
                                     : all("Ready")    ? "True"
                                                       : "Unknown");
  status.mutable_object()->set_message(state == "Failed" ? error : "");
  book.show(key, generation, std::move(copy));
}

async::Task<Result<image::Unpacked>> Catalog::State::ensure_image(
    std::shared_ptr<const v1alpha1::ActorTemplate> source, int index) {
  const v1alpha1::Container& container = source->spec().containers(index);
  std::string reference = container.image();
  std::string digest;
  for (const v1alpha1::ImageStatus& image : source->status().images()) {
    if (image.container() == container.name()) {
      digest = image.digest();
    }
  }
  if (digest.empty()) {
    co_return fail(Error(Errc::ImageInvalid,
                         "container " + container.name() + ": the image was never resolved")
                       .with_field(image_field(index)));
  }
  if (!sources->has_image(digest)) {
    show_image(*source, index, "Unpacking", "");
  }
  Result<image::Unpacked> unpacked =
      co_await sources->ensure(std::move(reference), std::move(digest));
  if (unpacked) {
    show_image(*source, index, "Ready", "");
    co_return unpacked;
  }
  show_image(*source, index, "Failed", unpacked.error().message());
  const Problem problem = pin_problem(unpacked.error(), Errc::ImageInvalid, image_field(index));
  co_return fail(
      std::move(unpacked)
          .error()
          .context("container " + container.name())
          .with_code(problem.code == Errc::InvalidValue ? Errc::ImageInvalid : problem.code)
          .with_field(problem.field));
}

async::Task<void> Catalog::State::unpack(std::shared_ptr<const v1alpha1::ActorTemplate> source) {
  const std::pair<Key, std::int64_t> id{key_of(Kind::ActorTemplate, *source),
                                        source->metadata().generation()};
  // One after the other: unpacking is the work of a whole disk, and a resume that cannot wait
  // asks by itself.
  async::Mutex::Lock lock = co_await unpacks.lock();
  for (int i = 0; i < source->spec().containers_size(); ++i) {
    Result<image::Unpacked> unpacked = co_await ensure_image(source, i);
    if (!unpacked) {
      on_log(true, text_of(id.first) + ": " + unpacked.error().message());
    }
  }
  unpacking.erase(id);
}

void Catalog::State::start_unpacks() {
  for (const ObjectPtr& object : book.list(Kind::ActorTemplate, "")) {
    auto source = std::static_pointer_cast<const v1alpha1::ActorTemplate>(object);
    const auto& images = source->status().images();
    // Failed ones are tried again at each scan: the archive may be back.
    const bool ready = std::all_of(images.begin(), images.end(),
                                   [](const auto& image) { return image.state() == "Ready"; });
    const std::pair<Key, std::int64_t> id{key_of(Kind::ActorTemplate, *source),
                                          source->metadata().generation()};
    if (!ready && unpacking.insert(id).second) {
      tasks.spawn("unpack " + text_of(id.first), unpack(std::move(source)));
    }
  }
}

}  // namespace ate::objects
