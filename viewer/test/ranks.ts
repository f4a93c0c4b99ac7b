// A rank of a fleet's page, for tests.

import type { PageRank } from '../src/core/fleet.js';

export function rankOf(rank: number | null, more: Partial<PageRank> = {}): PageRank {
  return {
    rank,
    file: `run/rank${rank}.pkl`,
    status: 'ok',
    error: null,
    host: null,
    group: 0,
    typical: null,
    page: null,
    device: 0,
    peak_bytes: 0,
    reserved_bytes: 0,
    headroom_bytes: null,
    step: null,
    ooms: 0,
    leak_bytes_per_step: null,
    trust: 'exact',
    categories: [],
    holders: [],
    moments: 0,
    ...more,
  };
}
