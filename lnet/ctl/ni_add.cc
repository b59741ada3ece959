// Adds NIs to a Node, all or none. Control strand.
#include "lnet/ctl/ni_config.h"

namespace ulnet::ctl {

void add_all_or_none(Node& node, std::vector<NiConfig> configs, std::function<void(Error)> done) {
    std::vector<Nid> added;
    for (const NiConfig& config : configs) {
        Error error = node.add_ni(config);
        if (error.ok()) {
            added.push_back(config.nid);
            continue;
        }
        error.text = "cannot add LNet NI: " + error.text;
        // Shared by the callbacks of the removals, the last of which reports.
        auto left = std::make_shared<std::size_t>(added.size() + 1);
        auto report = [left, error, done = std::move(done)] {
            if (--*left == 0) done(error);
        };
        for (const Nid& nid : added)
            if (!node.del_ni(nid, report).ok()) report();
        report();
        return;
    }
    done({});
}

}  // namespace ulnet::ctl
