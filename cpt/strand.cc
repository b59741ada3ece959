// Strand: serial work on a shared run queue. All of its concurrency is in StrandBits.
#include "cpt/sched.h"

namespace ulnet {

void Strand::wake() {
    if (bits_.wake()) sched_.post(cpt_, *this);
}

void Strand::run() {
    bits_.begin();
    Budget budget;
    const bool more = step(budget);
    // Once the bits are clear the owner may destroy the strand: nothing of it is used after that.
    if (bits_.end(more)) sched_.post(cpt_, *this);
}

}  // namespace ulnet
