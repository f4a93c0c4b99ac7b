// The holders of memory as a flame graph: a box per call, as wide as its own and its callees' bytes.

import { BEFORE_RECORDING, NAMED, NO_STACK } from '../core/code.js';
import type { Filter, Tree } from '../protocol.js';
import { useAnswer } from './answers.js';
import { hashed, softColours } from './canvas/colour.js';
import { Flame, type FrameName, type Path } from './canvas/flame.js';
import { commandOf } from './commands.js';
import { Copying, type Rows } from './copying.js';
import { filterOf, type Ground, useGround, wayOf } from './ground.js';
import { groupWords, placeOf } from './labels.js';
import { canvasSvg } from './saving.js';
import { Selected } from './selected.js';
import { change, type State, type Tab } from './state.js';
import { dark } from './theme.js';
import { count, size } from './units.js';

/** Boxes narrower than this share are left out. */
const LEAST = 1 / 5000;
/** How many files the key names. */
const KEY = 8;
const SPECIAL: Readonly<Record<number, string>> = {
  [-1]: 'all',
  [-2]: '(recorded without a stack)',
  [-3]: '(allocated before the recording)',
};

/** A frame's name and location. */
export function frameName(ground: Ground, frame: number): FrameName {
  const { snapshot } = ground;
  if (frame <= NAMED) {
    return { title: groupWords(ground, 'line', NAMED - frame, true)[0] ?? '', detail: '' };
  }
  if (frame === BEFORE_RECORDING && ground.device.events === 0) {
    // Frame 0 is empty; without events, the final state can still have stacks.
    const title =
      ground.frames.functions.length > 1 ? SPECIAL[NO_STACK]! : '(no events were recorded)';
    return { title, detail: '' };
  }
  if (frame < 0) return { title: SPECIAL[frame] ?? '', detail: '' };
  const { functions, files, lines } = ground.frames;
  const file = snapshot.texts[files[frame]!] ?? '';
  const line = lines[frame]!;
  return {
    title: snapshot.texts[functions[frame]!] || '(no function)',
    detail: file && `${file}${line ? `:${line}` : ''}`,
    where: placeOf(snapshot, files[frame]!, line, true),
  };
}

/** A colour per file. */
export function frameColour({ frames, snapshot }: Ground, frame: number): string {
  if (frame < 0 && frame > NAMED) return 'var(--hole)';
  const colours = softColours(dark.value);
  return colours[
    hashed(frame < 0 ? '' : (snapshot.texts[frames.files[frame]!] ?? '')) % colours.length
  ]!;
}

/** A few choices, as buttons. */
export function Choice<T extends string>(props: {
  label: string;
  value: T;
  choices: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <fieldset class="choice">
      <legend class="unseen">{props.label}</legend>
      {props.choices.map(([value, name]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}

export function FrameChoices({ ground, tab }: { ground: Ground; tab: Tab }) {
  const { state } = ground;
  const { zoom, onZoom } = zoomOf(state, tab);
  return (
    <>
      <Choice
        label="What is on top"
        value={state.root}
        choices={[
          ['outermost', 'from main'],
          ['innermost', 'from the allocation'],
        ]}
        onChange={(root) => change({ root })}
      />
      <Choice
        label="Which frames"
        value={state.frames}
        choices={[
          ['code', 'code'],
          ['all', 'all frames'],
        ]}
        onChange={(frames) => change({ frames })}
      />
      {zoom.length > 0 && (
        <button type="button" class="small" data-what="zoomed" onClick={() => onZoom([])}>
          show all
        </button>
      )}
    </>
  );
}

/** The frames that match the search, and the bytes of all allocations with such a frame. */
function useMatched(ground: Ground, filter: Filter | null) {
  const { engine, place, counted: measure, at: moment, state } = ground;
  const include = state.search;
  const answer = useAnswer(JSON.stringify([place, measure, moment, filter, include]), async () => {
    if (!include) return null;
    const way = wayOf(ground);
    const [frames, { bytes }] = await Promise.all([
      engine.framesMet(place.snapshot, { include }),
      engine.holders({ place, measure, moment, way, filter: { ...filter, include } }),
    ]);
    return { frames, bytes };
  });
  return include ? answer.value : null;
}

/** A flame graph's zoom, which is in the URL, and what changes it. */
export function zoomOf({ zoom }: State, tab: Tab) {
  const [of, ...path] = zoom.split('.');
  return {
    zoom: of === tab ? path.map(Number) : [],
    onZoom: (next: Path) => change({ zoom: next.length ? [tab, ...next].join('.') : '' }),
  };
}

/** The files of most boxes, with their colours. */
function FileKey({ ground, tree }: { ground: Ground; tree: Tree }) {
  const { frames, snapshot } = ground;
  const areas = new Map<number, { frame: number; area: number }>();
  tree.frame.forEach((frame, node) => {
    if (frame < 0) return;
    const file = frames.files[frame]!;
    const area = (areas.get(file)?.area ?? 0) + tree.bytes[node]!;
    areas.set(file, { frame, area });
  });
  const most = [...areas].sort(([, a], [, b]) => b.area - a.area).slice(0, KEY);
  return (
    <ul class="key" aria-label="Colours: a box's file">
      {most.map(([file, { frame }]) => (
        <li key={file} title={snapshot.texts[file]}>
          <i class="swatch" style={{ background: frameColour(ground, frame) }} />
          {placeOf(snapshot, file, 0, true) || '(no file)'}
        </li>
      ))}
      {areas.size > KEY && <li>and {areas.size - KEY} more files</li>}
    </ul>
  );
}

export function FlameTab() {
  const ground = useGround();
  const { engine, place, counted: measure, at, state } = ground;
  // A search marks boxes; only a selected group leaves out others.
  const filter = filterOf({ ...ground, state: { ...state, search: '' } });
  const matched = useMatched(ground, filter);
  const answer = useAnswer<Tree>(
    JSON.stringify([place, measure, at, state.root, state.frames, filter]),
    async () => {
      const bytes = await engine.bytesAt(place, measure, at);
      const { root, frames } = state;
      const least = Math.max(1, Math.floor(bytes * LEAST));
      return engine.tree({ place, measure, moment: at, root, frames, filter, least });
    },
  );
  if (answer.error) return <p class="failed">{answer.error}</p>;
  const tree = answer.value;
  return (
    <div class="panel">
      <div class="toolbar">
        <FrameChoices ground={ground} tab="flame" />
        {tree && (
          <span class="sum">
            <span data-what="total" data-bytes={tree.bytes[0]}>
              {size(tree.bytes[0] ?? 0)}
            </span>{' '}
            <span class="dim">({count(tree.bytes[0] ?? 0)} bytes)</span>
            {matched && (
              <>
                , of which{' '}
                <strong data-what="matched" data-bytes={matched.bytes}>
                  {size(matched.bytes)}
                </strong>{' '}
                <span class="dim">({count(matched.bytes)} bytes)</span> match
              </>
            )}
          </span>
        )}
        <Selected ground={ground} />
        <Copying
          name="flame"
          command={commandOf(ground, 'flame')}
          picture={() => canvasSvg('.mr-flame canvas')}
          {...(tree ? { csv: () => treeRows(ground, tree) } : {})}
        />
      </div>
      {tree && <FileKey ground={ground} tree={tree} />}
      {tree && (
        <Flame
          tree={tree}
          highlight={matched && ((node) => matched.frames[tree.frame[node]!] === 1)}
          {...zoomOf(state, 'flame')}
          names={(frame) => frameName(ground, frame)}
          colour={(node) => frameColour(ground, tree.frame[node]!)}
        />
      )}
    </div>
  );
}

/** A tree as rows: depth, name, total bytes including nodes below, own bytes. */
export function treeRows(ground: Ground, tree: Tree): Rows {
  const name = (frame: number) => {
    const { title, detail } = frameName(ground, frame);
    return [title, detail];
  };
  return [
    ['depth', 'function', 'place', 'bytes', 'own_bytes', 'count'],
    ...Array.from(tree.frame, (frame, node) => [
      tree.depth[node]!,
      ...name(frame),
      tree.bytes[node]!,
      tree.own[node]!,
      tree.count[node]!,
    ]),
  ];
}
