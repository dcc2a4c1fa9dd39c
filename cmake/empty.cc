// scaffolding: removed when every folder has sources
