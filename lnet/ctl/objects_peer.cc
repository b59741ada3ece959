// The commands of the objects peer, stats and global. Control strand.
#include <algorithm>

#include "lnet/ctl/objects_detail.h"

namespace ulnet::ctl {
namespace {

void peer_show(Objects& objects, CallPtr call, const Value& args) {
    std::vector<PeerView> peers = inspect_peers(objects.node);
    if (args.has("nid")) {
        const Nid wanted = *parse_nid(args["nid"].as_text());
        std::erase_if(peers, [&](const PeerView& peer) {
            return peer.primary != wanted &&
                   std::none_of(peer.nis.begin(), peer.nis.end(),
                                [&](const PeerNiView& ni) { return ni.nid == wanted; });
        });
        if (peers.empty())
            return call->fail(
                {Status(-ENOENT), "no peer has the NID '" + args["nid"].as_text() + "'"});
    }
    call->reply(show_peers(peers, inspect_nis(objects.node), args["verbose"].as_int()));
}

void peer_list(Objects& objects, CallPtr call, const Value&) {
    Value list = Value::list();
    for (const PeerView& peer : inspect_peers(objects.node))
        list.push(Value::map({{"nid", Value(to_text(peer.primary))}}));
    call->reply(Value::map({{"peer list", std::move(list)}}));
}

void stats_show(Objects& objects, CallPtr call, const Value&) {
    call->reply(show_stats(inspect_stats(objects.node)));
}

void stats_reset(Objects& objects, CallPtr call, const Value&) {
    reset_stats(objects.node);
    call->reply(Value::map());
}

void global_show(Objects& objects, CallPtr call, const Value&) {
    call->reply(show_global(inspect_options(objects.node)));
}

}  // namespace

void register_peer(const ObjectsPtr& objects, Registry& registry) {
    add_command(objects, registry, "peer", "show", peer_show);
    add_command(objects, registry, "peer", "list", peer_list);
    add_command(objects, registry, "stats", "show", stats_show);
    add_command(objects, registry, "stats", "reset", stats_reset);
    add_command(objects, registry, "global", "show", global_show);
}

}  // namespace ulnet::ctl
