// Calls of classes that a user wrote.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "gil.h"

namespace crema::python {

namespace nb = nanobind;

// While it lives, exceptions of layers that this thread runs become Errors, to be listed.
class ListExceptions {
 public:
  ListExceptions();
  ~ListExceptions();
  ListExceptions(const ListExceptions&) = delete;
  ListExceptions& operator=(const ListExceptions&) = delete;

 private:
  bool before_;
};

// Rethrows an exception of Python. In a command, whose callers do not handle it, and under
// ListExceptions throws an Error with the position in the user's file instead. Requires the GIL, in
// a handler of the exception.
[[noreturn]] void Rethrow(const std::string& layer, const nb::python_error& error);

// Runs code of a layer with the GIL.
template <typename Body>
auto CallUser(const std::string& layer, Body&& body) {
  const GilHeld gil;
  try {
    return body();
  } catch (const nb::python_error& error) {
    Rethrow(layer, error);
  }
}

// An object whose owner may die without the GIL, or after Python.
class UserObject {
 public:
  explicit UserObject(nb::object object) : object_(std::move(object)) {}
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

  const nb::object& operator*() const { return object_; }

 private:
  nb::object object_;
};

}  // namespace crema::python
