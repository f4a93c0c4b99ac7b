// Answers all requests of the page about open snapshots, in the worker.

import type {
  Allocation,
  Axis,
  Band,
  BandQuery,
  Blocking,
  Changed,
  Curve,
  CurveQuery,
  Engine,
  Events,
  Filter,
  Frames,
  Holder,
  Holders,
  HoldersQuery,
  LiveQuery,
  LiveRows,
  Peak,
  Picture,
  PictureQuery,
  Place,
  Reservation,
  SegmentKey,
  SegmentMap,
  Stack,
  Tree,
  TreeOfBoth,
  TreeQuery,
} from '../protocol.js';
import { allocation } from './allocation.js';
import { Code } from './code.js';
import { coloured } from './colour.js';
import { maxima } from './curve.js';
import { Device } from './device.js';
import { History } from './events.js';
import type { Grouping } from './groups.js';
import { between, holders } from './holders.js';
import { fileLines } from './lines.js';
import { listing } from './listing.js';
import { Pieces } from './map.js';
import type { LifeMeasure, Measure, Page, Way } from './page.js';
import { prominence } from './prominence.js';
import { framesMet, type Selection, selection, stacksMet } from './search.js';
import { paint } from './stack.js';
import { callTree, type Live, treeOfBoth } from './tree.js';

/** An open snapshot. */
interface Open {
  readonly code: Code;
  readonly devices: readonly Device[];
  /** Search results: whether each stack matches. */
  readonly searches: Map<string, Uint8Array>;
  readonly pieces: Map<number, Pieces>;
  readonly histories: Map<number, History>;
}

/** How many searches to keep, so that going back to one is fast. */
const SEARCHES = 8;

export class PageEngine implements Engine {
  private readonly open: (Open | undefined)[] = [];
  private last: { key: string; ids: Int32Array } = { key: '', ids: new Int32Array() };

  constructor(private readonly page: Page) {}

  /** Receives the columns of a snapshot. */
  load(snapshot: number, data: Uint8Array): void {
    const said = this.page.snapshots[snapshot];
    if (!said) throw new Error(`the page has no snapshot ${snapshot}`);
    this.open[snapshot] = {
      code: new Code(said, data),
      devices: said.devices.map((one) => new Device(one, data)),
      searches: new Map(),
      pieces: new Map(),
      histories: new Map(),
    };
  }

  loaded(snapshot: number): boolean {
    return this.open[snapshot] !== undefined;
  }

  frames(snapshot: number): Frames {
    const { functions, files, lines, sources, inner } = this.snapshot(snapshot).code.frames;
    return {
      inner: inner.slice(),
      functions: functions.slice(),
      files: files.slice(),
      lines: lines.slice(),
      sources: sources.slice(),
    };
  }

  stack(snapshot: number, stack: number): Stack {
    return this.snapshot(snapshot).code.stack(stack);
  }

  curve({ place, measure, axis, span, columns, recorded = false }: CurveQuery): Curve {
    const device = this.device(place);
    const { from, to } = device.clock.ranges(axis, span, columns);
    const usage =
      measure === 'reserved' ? device.usage(measure) : device.timeline(measure, recorded).usage;
    const low = new Float64Array(columns).fill(Number.NaN);
    const high = new Float64Array(columns).fill(Number.NaN);
    for (let c = 0; c < columns; c++) {
      if (from[c] === to[c]) continue;
      low[c] = usage.least(from[c]!, to[c]!);
      high[c] = usage.highest(from[c]!, to[c]!);
    }
    return { low, high };
  }

  peaks(place: Place, measure: Measure, from: number, to: number, most: number): readonly Peak[] {
    const device = this.device(place);
    const first = Math.max(from, 0);
    const stop = Math.min(to, device.said.events + 1);
    return first < stop ? maxima(device.usage(measure), first, stop, most) : [];
  }

  momentAt(place: Place, axis: Axis, x: number): number {
    return this.device(place).clock.momentAt(axis, x);
  }

  xOf(place: Place, axis: Axis, moment: number): number {
    return this.device(place).clock.xOf(axis, moment);
  }

  xsOf(place: Place, axis: Axis, moments: Float64Array): Float64Array {
    const { clock } = this.device(place);
    return moments.map((moment) => clock.xOf(axis, moment));
  }

  groups(place: Place, measure: LifeMeasure, way: Way, ids?: readonly number[]): Int32Array {
    const device = this.device(place);
    const groups = this.grouping(device, way, measure);
    if (ids) return Int32Array.from(ids, (id) => groups.at(id));
    return new Int32Array(device.lives).map((_, id) => groups.at(id));
  }

  framesMet(snapshot: number, { include = '' }: Pick<Filter, 'include'>): Uint8Array {
    return framesMet(this.snapshot(snapshot).code, include);
  }

  bandOf({ place, measure, moment, id, filter, recorded }: BandQuery): Band | null {
    const device = this.device(place);
    const timeline = device.timeline(measure, recorded);
    const selected = this.selected(place, measure, filter);
    let [low, first, end] = [0, -1, 0];
    for (const one of timeline.live(within(device, moment))) {
      const high = low + timeline.bytes[one]!;
      if (high > low && (selected ? selected.has(one) : one === id)) {
        if (first < 0) first = low;
        end = high;
      }
      low = high;
    }
    return first < 0 ? null : { low: first, high: end };
  }

  prominence(place: Place, way: Way): Float64Array {
    const device = this.device(place);
    return prominence(device.timeline('requested'), this.grouping(device, way, 'requested'));
  }

  bytesAt(place: Place, measure: Measure, moment: number): number {
    const device = this.device(place);
    return device.usage(measure).at(within(device, moment));
  }

  picture(query: PictureQuery): Picture {
    const { place, measure, axis, span, width, colour } = query;
    const device = this.device(place);
    const usage =
      measure === 'reserved'
        ? device.usage(measure)
        : device.timeline(measure, query.recorded).usage;
    const { from, to } = device.clock.ranges(axis, span, width);
    const moments = from.map((first, x) => (first < to[x]! ? usage.highestAt(first, to[x]!) : -1));
    if (measure === 'reserved') return this.pieces(place).picture(query, moments);
    const timeline = device.timeline(measure, query.recorded);
    const ids = this.painted(query, () => paint(timeline, moments, query));
    const groups = this.grouping(device, colour.way, measure);
    const highlight = this.selected(place, measure, query.highlight);
    return { pixels: coloured(ids, width, colour, groups, highlight), ids, moments };
  }

  /** The allocations in each pixel. The last ones are kept, because changing colours doesn't
   * change them. */
  private painted(query: PictureQuery, paint: () => Int32Array): Int32Array {
    const key = JSON.stringify({ ...query, colour: null, highlight: null });
    if (this.last.key !== key) this.last = { key, ids: paint() };
    return new Int32Array(this.last.ids); // because it's transferred to the page
  }

  allocation(place: Place, id: number): Allocation {
    const device = this.device(place);
    if (!(id >= 0 && id < device.lives)) throw new Error(`no allocation ${id}`);
    return allocation(device, id);
  }

  holders({ place, measure, moment, way, filter }: HoldersQuery): Holders {
    const device = this.device(place);
    return holders(
      device.timeline(measure),
      within(device, moment),
      this.grouping(device, way, measure),
      this.selected(place, measure, filter),
    );
  }

  between(query: HoldersQuery, later: number): readonly Changed[] {
    const { place, measure, moment, way, filter } = query;
    const device = this.device(place);
    return between(
      device.timeline(measure),
      within(device, moment),
      within(device, later),
      this.grouping(device, way, measure),
      this.selected(place, measure, filter),
    );
  }

  tree(query: TreeQuery): Tree {
    return callTree(this.what(query), query, query.least);
  }

  treeOfDifferences(before: TreeQuery, after: TreeQuery): TreeOfBoth {
    return treeOfBoth(this.what(before), this.what(after), after, after.least);
  }

  lines(query: Omit<HoldersQuery, 'way'>, file: number): readonly Holder[] {
    return fileLines(this.what(query), file);
  }

  live(query: LiveQuery): LiveRows {
    const { place, measure, moment, filter, sort, descending, offset, limit } = query;
    const device = this.device(place);
    return listing(
      device,
      device.timeline(measure),
      within(device, moment),
      this.selected(place, measure, filter),
      { sort, descending, offset, limit },
    );
  }

  map(place: Place, moment: number): SegmentMap {
    return this.pieces(place).at(within(this.device(place), moment));
  }

  events(place: Place, address: string, from: number, limit: number): Events {
    const device = this.device(place);
    const { histories } = this.snapshot(place.snapshot);
    const known =
      histories.get(place.device) ??
      new History(device, device.said.segments && this.pieces(place));
    histories.set(place.device, known);
    return known.rows(address, from, limit);
  }

  segments(place: Place, moment: number, key: SegmentKey): readonly Holder[] {
    return this.pieces(place).holders(within(this.device(place), moment), key);
  }

  segment(place: Place, id: number, moment: number): Reservation {
    return this.pieces(place).piece(id, within(this.device(place), moment));
  }

  blockers(place: Place, moment: number, way: Way): Blocking {
    const device = this.device(place);
    const grouping = this.grouping(device, way, 'active');
    return this.pieces(place).blocking(within(device, moment), grouping);
  }

  private pieces(place: Place): Pieces {
    const device = this.device(place);
    const { pieces, code } = this.snapshot(place.snapshot);
    const { segments } = device.said;
    if (!segments) throw new Error('the file has no segments');
    const known = pieces.get(place.device) ?? new Pieces(device, segments, code);
    pieces.set(place.device, known);
    return known;
  }

  private snapshot(number: number): Open {
    const found = this.open[number];
    if (!found) throw new Error(`snapshot ${number} is not open`);
    return found;
  }

  private device({ snapshot, device }: Place): Device {
    const found = this.snapshot(snapshot).devices[device];
    if (!found) throw new Error(`snapshot ${snapshot} has no device ${device}`);
    return found;
  }

  private grouping(device: Device, way: Way, measure: LifeMeasure): Grouping {
    const found = device.grouping(way, measure);
    if (found) return found;
    if (!device.lives) return { at: () => 0 };
    throw new Error(`the page can't group by ${way}`);
  }

  /** The allocations that pass a filter; null for all. */
  private selected(place: Place, measure: LifeMeasure, filter: Filter | null): Selection | null {
    if (!filter) return null;
    const { include, way, group, recorded } = filter;
    const device = this.device(place);
    const met = include ? this.met(place.snapshot, include) : null;
    const groups = way === undefined ? null : this.grouping(device, way, measure);
    const first = recorded ? device.carried : 0;
    if (!met && !groups && !first) return null;
    return selection(met, met && device.stacks, groups, group ?? -1, first);
  }

  private met(snapshot: number, include: string): Uint8Array {
    const { code, searches } = this.snapshot(snapshot);
    const found = searches.get(include) ?? stacksMet(code, include);
    searches.delete(include);
    searches.set(include, found);
    for (const oldest of searches.keys()) {
      if (searches.size <= SEARCHES) break;
      searches.delete(oldest);
    }
    return found;
  }

  private what({
    place,
    measure,
    moment,
    filter,
  }: Pick<TreeQuery, 'place' | 'measure' | 'moment' | 'filter'>): Live {
    const device = this.device(place);
    const named = device.ofStacks('line');
    return {
      code: this.snapshot(place.snapshot).code,
      timeline: device.timeline(measure),
      moment: within(device, moment),
      stacks: device.stacks,
      named: named?.groups ?? null,
      lines: named?.lines ?? [],
      selected: this.selected(place, measure, filter),
    };
  }
}

/** An existing moment. */
function within(device: Device, moment: number): number {
  return Math.min(Math.max(Math.floor(moment), 0), device.said.events);
}
