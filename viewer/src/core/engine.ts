// STUB
import type * as P from '../protocol.js';
import { decoded } from './columns.js';
import {
  Device,
  type LifeMeasure,
  type Measure,
  type Page,
  type PageDevice,
  type Way,
} from './page.js';
import { paint } from './stack.js';

export class PageEngine implements P.Engine {
  private data: Uint8Array[] = [];
  private devices = new Map<string, Device>();
  constructor(private page: Page) {}
  load(snapshot: number, data: Uint8Array) {
    this.data[snapshot] = data;
  }
  private said(p: P.Place): PageDevice {
    return this.page.snapshots[p.snapshot]!.devices[p.device]!;
  }
  private dev(p: P.Place): Device {
    const k = `${p.snapshot} ${p.device}`;
    if (!this.devices.has(k)) this.devices.set(k, new Device(this.said(p), this.data[p.snapshot]!));
    return this.devices.get(k)!;
  }
  private col(s: number, c: any): Float64Array {
    return decoded(this.data[s]!, c);
  }
  private cache = new Map<string, any>();
  private once<T>(k: string, f: () => T): T {
    if (!this.cache.has(k)) this.cache.set(k, f());
    return this.cache.get(k);
  }
  frames(s: number): P.Frames {
    const d = this.page.snapshots[s]!;
    return {
      functions: Int32Array.from(this.col(s, d.frame_function)),
      files: Int32Array.from(this.col(s, d.frame_file)),
      lines: Int32Array.from(this.col(s, d.frame_line)),
    };
  }
  private stacks(s: number) {
    return this.once(`st${s}`, () => {
      const d = this.page.snapshots[s]!;
      const n = this.col(s, d.stack_frames);
      const off = [0];
      for (const x of n) off.push(off[off.length - 1]! + x);
      return {
        off,
        frames: Int32Array.from(this.col(s, d.frames)),
        code: Uint8Array.from(this.col(s, d.stack_code)),
      };
    });
  }
  stack(s: number, k: number): P.Stack {
    const { off, frames, code } = this.stacks(s);
    if (k + 1 >= off.length) return { frames: new Int32Array(0), code: new Uint8Array(0) };
    return { frames: frames.slice(off[k], off[k + 1]), code: code.slice(off[k], off[k + 1]) };
  }
  private time(p: P.Place): Float64Array {
    return this.once(`t${p.snapshot} ${p.device}`, () =>
      this.said(p).time ? this.col(p.snapshot, this.said(p).time) : new Float64Array(0),
    );
  }
  private ranges(p: P.Place, axis: P.Axis, span: P.Span, n: number): [number, number][] {
    const step = (span.to - span.from) / n;
    const ev = this.said(p).events;
    return Array.from({ length: n }, (_, c) => {
      if (axis === 'event') {
        const a = Math.floor(span.from + c * step);
        return [a, Math.min(Math.max(a + 1, Math.floor(span.from + (c + 1) * step)), ev + 1)];
      }
      const a = this.momentAt(p, axis, span.from + c * step);
      return [a, Math.max(a + 1, this.momentAt(p, axis, span.from + (c + 1) * step))];
    });
  }
  usage(p: P.Place, m: Measure): Float64Array {
    return this.once(`u${p.snapshot} ${p.device} ${m}`, () => this.dev(p).usage(m));
  }
  curve(q: P.CurveQuery): P.Curve {
    const u = this.usage(q.place, q.measure);
    const low = new Float64Array(q.columns).fill(NaN);
    const high = new Float64Array(q.columns).fill(NaN);
    this.ranges(q.place, q.axis, q.span, q.columns).forEach(([a, b], i) => {
      for (let m = a; m < b; m++) {
        if (!(u[m]! >= low[i]!)) low[i] = u[m]!;
        if (!(u[m]! <= high[i]!)) high[i] = u[m]!;
      }
    });
    return { low, high };
  }
  peaks(p: P.Place, m: Measure, from: number, to: number, most: number) {
    const u = this.usage(p, m);
    let b = from;
    for (let i = from; i < Math.min(to, u.length); i++) if (u[i]! > u[b]!) b = i;
    return [{ moment: b, bytes: u[b]! }].slice(0, most);
  }
  momentAt(p: P.Place, axis: P.Axis, x: number): number {
    const ev = this.said(p).events;
    if (axis === 'event') return Math.min(Math.max(Math.floor(x), 0), ev);
    const t = this.time(p);
    let a = 0,
      b = t.length;
    while (a < b) {
      const c = (a + b) >> 1;
      if (t[c]! <= x) a = c + 1;
      else b = c;
    }
    return a;
  }
  xOf(p: P.Place, axis: P.Axis, m: number): number {
    return axis === 'event' ? m : m === 0 ? 0 : this.time(p)[m - 1]!;
  }
  xsOf(p: P.Place, axis: P.Axis, ms: Float64Array): Float64Array {
    return ms.map((m) => this.xOf(p, axis, m));
  }
  bytesAt(p: P.Place, m: number): any {
    return Object.fromEntries(
      ['requested', 'held', 'active', 'allocated', 'reserved'].map((k) => [
        k,
        this.usage(p, k as Measure)[m],
      ]),
    );
  }
  groups(p: P.Place, measure: LifeMeasure, way: Way): Int32Array {
    return this.grp(p, measure, way).slice();
  }
  private grp(p: P.Place, measure: LifeMeasure, way: Way): Int32Array {
    return this.once(`g${p.snapshot} ${p.device} ${measure} ${way}`, () => {
      const g = this.said(p).groups.find((o) => o.way === way)!;
      const d = this.dev(p);
      if (g.of_lives) return Int32Array.from(this.col(p.snapshot, g.of_lives));
      if (g.of_stacks) {
        const of = this.col(p.snapshot, g.of_stacks);
        return Int32Array.from(d.column('stack'), (s) => of[s]!);
      }
      return Int32Array.from(d.timeline(measure).lives.bytes, (b) =>
        b ? Math.floor(Math.log2(b)) + 1 : 0,
      );
    });
  }
  private stackOf(p: P.Place): Float64Array {
    return this.once(`so${p.snapshot} ${p.device}`, () => this.dev(p).column('stack'));
  }
  private matches(p: P.Place, f: P.Filter | null, measure: LifeMeasure): (id: number) => boolean {
    if (!f) return () => true;
    const s = this.page.snapshots[p.snapshot]!;
    const fr = this.frames(p.snapshot);
    const { off, frames } = this.stacks(p.snapshot);
    const re = f.include ? new RegExp(f.include) : null;
    const so = this.stackOf(p);
    const g = f.way ? this.grp(p, measure, f.way) : null;
    const ok = re
      ? this.once(`re${p.snapshot}${f.include}`, () => {
          const fo = Array.from(
            fr.functions,
            (fn, i) => re.test(s.texts[fn]!) || re.test(`${s.texts[fr.files[i]!]}:${fr.lines[i]}`),
          );
          return off.slice(0, -1).map((a, k) => frames.subarray(a, off[k + 1]).some((x) => fo[x]!));
        })
      : null;
    return (id) => (!ok || !!ok[so[id]!]) && (!g || g[id] === f.group);
  }
  picture(q: P.PictureQuery): P.Picture {
    const t = this.dev(q.place).timeline(q.measure);
    const r = this.ranges(q.place, q.axis, q.span, q.width);
    const span = { from: r[0]![0], to: r[r.length - 1]![1] };
    const ids = paint(t, { ...span, low: q.low, high: q.high, width: q.width, height: q.height });
    const moments = Int32Array.from(r, ([a, b]) => t.highest(a, b));
    const px = new Uint32Array(q.width * q.height);
    const g = this.grp(q.place, q.measure, q.colour.way);
    const own = new Map(q.colour.colours);
    const m = q.highlight ? this.matches(q.place, q.highlight, q.measure) : null;
    const abgr = (c: number) => (0xff000000 | ((c & 255) << 16) | (c & 0xff00) | (c >> 16)) >>> 0;
    const mix = (c: number, b: number) =>
      [16, 8, 0].reduce(
        (o, k) => o | (Math.round(((c >> k) & 255) * 0.25 + ((b >> k) & 255) * 0.75) << k),
        0,
      );
    for (let i = 0; i < px.length; i++) {
      const id = ids[i]!;
      let c =
        id < 0
          ? q.colour.background
          : (own.get(g[id]!) ?? q.colour.others[g[id]! % q.colour.others.length]!);
      if (id >= 0 && m && !m(id)) c = mix(c, q.colour.background);
      if (
        id >= 0 &&
        i + q.width < ids.length &&
        ids[i + q.width] !== id &&
        ids[i - q.width] === id &&
        ids[i - 2 * q.width] === id
      )
        c = [16, 8, 0].reduce((o, k) => o | (Math.round(((c >> k) & 255) * 0.8) << k), 0);
      px[i] = abgr(c);
    }
    return { pixels: new Uint8ClampedArray(px.buffer), ids, moments };
  }
  allocation(p: P.Place, id: number): P.Allocation {
    const d = this.dev(p);
    const s = this.said(p);
    const c = (n: any) => this.once(`c${p.snapshot}${p.device}${n}`, () => d.column(n))[id]!;
    const b = c('begin'),
      e = b + c('life'),
      t = this.time(p);
    const pool = s.pools[c('pool')];
    return {
      id,
      made: b < 0 ? null : b + s.first_event,
      freed: e >= s.events ? null : e + s.first_event,
      asked: e - c('lag') >= s.events ? null : e - c('lag') + s.first_event,
      madeUs: b < 0 ? null : (t[b] ?? null),
      freedUs: e >= s.events ? null : (t[e] ?? null),
      requested: c('requested'),
      block: c('requested') + c('slack'),
      address:
        '0x' +
        (BigInt(s.address_base) + BigInt(c('address') - 1) * BigInt(s.address_unit)).toString(16),
      stack: c('stack'),
      groups: Object.fromEntries(
        s.groups.map((g) => [g.way, this.grp(p, 'requested', g.way)[id]!]),
      ),
      stream: s.streams[c('stream')] ?? null,
      pool: pool ? pool.join(':') : null,
    };
  }
  holders(q: P.HoldersQuery): P.Holders {
    const t = this.dev(q.place).timeline(q.measure);
    const g = this.grp(q.place, q.measure, q.way);
    const m = this.matches(q.place, q.filter, q.measure);
    const by = new Map<number, { group: number; bytes: number; count: number }>();
    let bytes = 0,
      count = 0;
    const live = t.live(q.moment);
    for (const id of live)
      if (m(id)) {
        const k = g[id]!;
        const o = by.get(k) ?? { group: k, bytes: 0, count: 0 };
        o.bytes += t.lives.bytes[id]!;
        o.count++;
        by.set(k, o);
        bytes += t.lives.bytes[id]!;
        count++;
      }
    return {
      bytes,
      count,
      allBytes: t.usage[q.moment]!,
      allCount: live.length,
      groups: [...by.values()].sort((a, b) => b.bytes - a.bytes),
    };
  }
  between(q: P.HoldersQuery, later: number): P.Changed[] {
    const t = this.dev(q.place).timeline(q.measure);
    const g = this.grp(q.place, q.measure, q.way);
    const a = new Set(t.live(q.moment));
    const b = new Set(t.live(later));
    const by = new Map<number, any>();
    const o = (id: number) => {
      const k = g[id]!;
      if (!by.has(k))
        by.set(k, { group: k, bytes: 0, count: 0, came: 0, cameCount: 0, went: 0, wentCount: 0 });
      return by.get(k);
    };
    for (const id of b)
      if (!a.has(id)) {
        const x = o(id);
        x.came += t.lives.bytes[id]!;
        x.cameCount++;
        x.bytes += t.lives.bytes[id]!;
        x.count++;
      }
    for (const id of a)
      if (!b.has(id)) {
        const x = o(id);
        x.went += t.lives.bytes[id]!;
        x.wentCount++;
        x.bytes -= t.lives.bytes[id]!;
        x.count--;
      }
    return [...by.values()];
  }
  tree(q: P.TreeQuery): P.Tree {
    const t = this.dev(q.place).timeline(q.measure);
    const so = this.stackOf(q.place);
    const m = this.matches(q.place, q.filter, q.measure);
    type N = { f: number; b: number; o: number; c: number; k: Map<number, N> };
    const mk = (f: number): N => ({ f, b: 0, o: 0, c: 0, k: new Map() });
    const root = mk(-1);
    for (const id of t.live(q.moment))
      if (m(id)) {
        const s = this.stack(q.place.snapshot, so[id]!);
        let fr = [...s.frames];
        if (q.frames === 'code' && fr.length) {
          const y = fr.filter((_, i) => s.code[i]);
          fr = y.length ? y : [fr[0]!];
        }
        if (!fr.length) fr = [-2];
        if (q.root === 'outermost') fr.reverse();
        let n = root;
        const b = t.lives.bytes[id]!;
        n.b += b;
        n.c++;
        for (const f of fr) {
          if (!n.k.has(f)) n.k.set(f, mk(f));
          n = n.k.get(f)!;
          n.b += b;
          n.c++;
        }
        n.o += b;
      }
    const P0: number[] = [],
      D: number[] = [],
      F: number[] = [],
      B: number[] = [],
      O: number[] = [],
      C: number[] = [];
    const walk = (n: N, p: number, d: number) => {
      if (n.b < q.least && p >= 0) return;
      const i = F.length;
      P0.push(p);
      D.push(d);
      F.push(n.f);
      B.push(n.b);
      O.push(n.o);
      C.push(n.c);
      for (const k of [...n.k.values()].sort((a, b) => b.b - a.b)) walk(k, i, d + 1);
    };
    walk(root, -1, 0);
    return {
      parent: Int32Array.from(P0),
      depth: Int32Array.from(D),
      frame: Int32Array.from(F),
      bytes: Float64Array.from(B),
      own: Float64Array.from(O),
      count: Int32Array.from(C),
    };
  }
  treeOfDifferences(a: P.TreeQuery, _b: P.TreeQuery): any {
    const t = this.tree(a);
    return { ...t, before: t.bytes.slice(), frameOf: new Uint8Array(t.frame.length) };
  }
  live(q: P.LiveQuery): P.LiveRows {
    const t = this.dev(q.place).timeline(q.measure);
    const m = this.matches(q.place, q.filter, q.measure);
    const ids = [...t.live(q.moment)].filter(m);
    ids.sort((a, b) => t.lives.bytes[b]! - t.lives.bytes[a]!);
    return {
      total: ids.length,
      bytes: ids.reduce((s, i) => s + t.lives.bytes[i]!, 0),
      rows: ids.slice(q.offset, q.offset + q.limit).map((i) => this.allocation(q.place, i)),
    };
  }
  map(_p: P.Place, _m: number): P.SegmentMap {
    return { reserved: 0, active: 0, segments: [] };
  }
}
