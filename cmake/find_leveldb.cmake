# Finds LevelDB as target leveldb::leveldb. Not find_package(leveldb): Debian's file links the
# development package of snappy, which it does not depend on. Sets LEVELDB_FOUND. Installed, since
# programs that link Crema need it too.
find_path(LEVELDB_INCLUDE_DIR leveldb/db.h)
find_library(LEVELDB_LIBRARY leveldb)
set(LEVELDB_FOUND FALSE)
if(LEVELDB_INCLUDE_DIR AND LEVELDB_LIBRARY)
  set(LEVELDB_FOUND TRUE)
  if(NOT TARGET leveldb::leveldb)
    add_library(leveldb::leveldb UNKNOWN IMPORTED)
    set_target_properties(leveldb::leveldb PROPERTIES
      IMPORTED_LOCATION ${LEVELDB_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LEVELDB_INCLUDE_DIR})
  endif()
endif()
