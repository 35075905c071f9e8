#include "graph/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "core/sha256.h"
#include "core/strings.h"
#include "crema/plugin.h"
#include "format/file.h"
#include "format/fork_rewrites.h"
#include "graph/plugin_layer.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const std::string& path, std::string why) {
  Fail(ErrorCode::kInvalidArgument, std::move(why), {.file = path});
}

template <typename Struct>
Struct ReadAt(const std::string& bytes, uint64_t offset, const std::string& path) {
  Struct read;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(read)) Refuse(path, "is truncated");
  std::memcpy(&read, &bytes[offset], sizeof(read));
  return read;
}

// The system maps a truncated library and ends the process when it reads the missing part.
void RefuseTruncated(const std::string& bytes, const std::string& path) {
  if (!bytes.starts_with(ELFMAG)) Refuse(path, "is no shared library");
  const auto head = ReadAt<ElfW(Ehdr)>(bytes, 0, path);
  for (uint64_t i = 0; i < head.e_phnum; ++i) {
    const auto segment = ReadAt<ElfW(Phdr)>(bytes, head.e_phoff + i * head.e_phentsize, path);
    const bool fits =
        segment.p_offset <= bytes.size() && segment.p_filesz <= bytes.size() - segment.p_offset;
    if (segment.p_type == PT_LOAD && !fits) Refuse(path, "is truncated");
  }
}

// A loaded library, unloaded again unless it is kept.
class Library {
 public:
  explicit Library(const std::string& path)
      : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* reason = ::dlerror();
    Refuse(path, StrCat("cannot be loaded: ", reason == nullptr ? "unknown reason" : reason));
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* Symbol(const char* name) const { return ::dlsym(handle_, name); }
  void Keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

// Returns the description that the plugin gives of itself. Throws if this version cannot read it.
const crema_plugin_info& InfoOf(const Library& library, const std::string& path) {
  using Entry = const crema_plugin_info* (*)();
  const auto entry = reinterpret_cast<Entry>(library.Symbol("crema_plugin"));
  if (entry == nullptr) {
    Refuse(path, "is not a plugin of Crema: it has no function crema_plugin (docs/plugins.md)");
  }
  const crema_plugin_info* info = entry();
  if (info == nullptr || info->name == nullptr || info->version == nullptr || *info->name == '\0') {
    Refuse(path, "a plugin that does not give its name and version");
  }
  const std::string name = StrCat("plugin '", info->name, "' ", info->version);
  if (info->abi != CREMA_PLUGIN_ABI) {
    Refuse(path, StrCat(name, " was built for version ", info->abi,
                        " of the plugin interface, and this Crema has version ", CREMA_PLUGIN_ABI,
                        ": build it with the header crema/plugin.h of this Crema",
                        info->abi > CREMA_PLUGIN_ABI ? ", or use a newer Crema" : ""));
  }
  const bool has_layers =
      info->struct_size >= sizeof(*info) && info->layer_count > 0 && info->layers != nullptr;
  if (!has_layers) Refuse(path, StrCat(name, " has no layer types"));
  return *info;
}

// Throws if the registry has a plugin of this name, or the type.
void CheckNew(const PluginFacts& plugin, const std::vector<LayerType>& types,
              const Registry& registry) {
  for (const auto& other : PluginsOf(registry)) {
    if (other->name == plugin.name) {
      Refuse(plugin.path, StrCat(ToString(plugin), ": ", ToString(*other), " is loaded already"));
    }
  }
  std::map<std::string, int> own;
  for (const LayerType& type : types) {
    const LayerType* existing = registry.Find(type.name);
    // Most nets would not reach the plugin's: the layer is written with others when they are read.
    const bool rewritten = HasForkRewrite(type.name);
    if (existing == nullptr && !rewritten && own[type.name]++ == 0) continue;
    const bool built_in = rewritten || (existing != nullptr && existing->plugin == nullptr);
    const std::string owner = built_in              ? "built in"
                              : existing == nullptr ? "in this plugin, twice"
                                                    : "of " + ToString(*existing->plugin);
    Refuse(plugin.path, StrCat(ToString(plugin), ": a layer type '", type.name,
                               "' exists already (", owner, ")"));
  }
}

}  // namespace

void LoadPlugin(const std::string& path, Registry* registry) {
  const std::string bytes = ReadFile(path);
  RefuseTruncated(bytes, path);
  const std::string sum = Sha256Hex(bytes);
  for (const auto& plugin : PluginsOf(*registry)) {
    if (plugin->sha256 == sum) return;
  }
  // Names without a slash would be searched for in the folders of the system.
  const std::string absolute = fs::absolute(path).lexically_normal().string();
  Library library(absolute);
  const crema_plugin_info& info = InfoOf(library, path);
  const auto plugin =
      std::make_shared<const PluginFacts>(PluginFacts{info.name, info.version, absolute, sum});
  std::vector<LayerType> types;
  for (size_t i = 0; i < info.layer_count; ++i) {
    if (info.layers[i] == nullptr) Refuse(path, ToString(*plugin) + " has an empty layer type");
    types.push_back(TypeOfPlugin(*info.layers[i], plugin));
  }
  CheckNew(*plugin, types, *registry);
  for (LayerType& type : types) registry->Add(std::move(type));
  library.Keep();
}

void LoadPlugins(NetFile* file, Registry* registry) {
  for (int i = 0; i < file->net.plugin_size(); ++i) {
    const fs::path folder = fs::absolute(file->source.file).parent_path();
    const std::string path = (folder / file->net.plugin(i)).lexically_normal().string();
    try {
      LoadPlugin(path, registry);
    } catch (const Error& error) {
      const Problem& problem = error.problems().front();
      Fail(problem.code, StrCat(path, ": ", problem.message),
           file->source.Locate(StrCat("plugin[", i, "]")));
    }
    file->net.set_plugin(i, path);
  }
}

std::vector<std::shared_ptr<const PluginFacts>> PluginsOf(const Registry& registry) {
  std::map<std::string, std::shared_ptr<const PluginFacts>> plugins;
  for (const std::string& name : registry.Names()) {
    const std::shared_ptr<const PluginFacts>& plugin = registry.Find(name)->plugin;
    if (plugin != nullptr) plugins.emplace(plugin->name, plugin);
  }
  std::vector<std::shared_ptr<const PluginFacts>> list;
  for (auto& [name, plugin] : plugins) list.push_back(std::move(plugin));
  return list;
}

GrowingRegistry::~GrowingRegistry() {
  for (Version* version = now_; version != nullptr;) {
    delete std::exchange(version, version->before);
  }
}

void GrowingRegistry::LoadPlugin(const std::string& path) {
  Version* before = now_.load();
  std::unique_ptr<Version> next;
  do {  // again if another thread has loaded one meanwhile
    next = std::make_unique<Version>(Version{before->registry, before});
    crema::LoadPlugin(path, &next->registry);
  } while (!now_.compare_exchange_strong(before, next.get()));
  (void)next.release();
}

}  // namespace crema
