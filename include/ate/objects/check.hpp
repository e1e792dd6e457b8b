#pragma once

#include <string>
#include <vector>

#include "ate/util/error.hpp"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace ate::codec {
struct Document;
}  // namespace ate::codec

namespace ate::objects {

/// Everything that can be said about a template, pool, sandbox config or node config by its text
/// alone; whether files, images and other objects exist is not looked at.
[[nodiscard]] std::vector<Problem> check_object(const google::protobuf::Message& object);

/// All problems of a document: those of its text, and of what could be read of it.
[[nodiscard]] std::vector<Problem> check_document(const codec::Document& document);

/// What a start would find wrong in the files of a directory, without looking at images and assets.
/// Blocking.
[[nodiscard]] std::vector<Problem> check_directory(const std::string& directory);

}  // namespace ate::objects
