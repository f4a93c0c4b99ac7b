// One file of the program: the lines that are known, with the bytes that are live at the cursor.

import { useAnswer } from './answers.js';
import { Copying } from './copying.js';
import { type Ground, useGround } from './ground.js';
import { placeOf } from './labels.js';
import { change } from './state.js';
import { type Column, Table } from './table.js';
import { count, size } from './units.js';

interface Line {
  readonly line: number;
  readonly text: string;
  readonly bytes: number;
  readonly count: number;
}

/** The lines of a file in any stack, with their source if it's known, or their functions. */
function linesOf({ frames, snapshot }: Ground, file: number): Map<number, string> {
  const found = new Map<number, string>();
  frames.files.forEach((one, frame) => {
    if (one !== file) return;
    const line = frames.lines[frame]!;
    const source = snapshot.texts[frames.sources[frame]! - 1];
    const name = snapshot.texts[frames.functions[frame]!] ?? '';
    if (source !== undefined || !found.has(line)) found.set(line, source ?? `in ${name}`);
  });
  return found;
}

/** A search for a line of a file. */
export function searchOf(path: string, line: number): string {
  return `${path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}:${line}\\b`;
}

export function FileTab() {
  const ground = useGround();
  const { engine, place, counted: measure, at, state, snapshot } = ground;
  const file = state.file ?? -1;
  const path = snapshot.texts[file] ?? '';
  const answer = useAnswer(JSON.stringify([place, measure, at, file]), () =>
    engine.lines({ place, measure, moment: at, filter: null }, file),
  );
  const sums = new Map(answer.value?.map((one) => [one.group, one]));
  const rows = [...linesOf(ground, file)]
    .sort(([a], [b]) => a - b)
    .map(([line, text]): Line => ({ line, text, bytes: 0, count: 0, ...sums.get(line) }));
  const columns: Column<Line>[] = [
    { key: 'line', title: 'line', right: true, width: '5rem', cell: ({ line }) => line || '?' },
    {
      key: 'bytes',
      title: 'live bytes',
      right: true,
      width: '7rem',
      cell: ({ bytes }) => (
        <span data-what="bytes" data-bytes={bytes} title={`${count(bytes)} bytes`}>
          {bytes ? size(bytes) : ''}
        </span>
      ),
    },
    {
      key: 'count',
      title: 'count',
      right: true,
      width: '5rem',
      cell: (one) => (one.count ? count(one.count) : ''),
    },
    { key: 'text', title: 'code', cell: ({ text }) => <code>{text}</code> },
  ];
  return (
    <div class="panel">
      <div class="toolbar">
        <b title={path}>{placeOf(snapshot, file, 0)}</b>
        <span class="dim">bytes whose stack has the line; click to show only these</span>
        <Copying
          name="file"
          command={null}
          csv={() => [
            ['file', 'line', 'bytes', 'count', 'code'],
            ...rows.map((one) => [path, one.line, one.bytes, one.count, one.text]),
          ]}
        />
      </div>
      <Table
        label={`Lines of ${path}`}
        columns={columns}
        total={rows.length}
        row={(index) => rows[index]}
        rowHeight={24}
        chosen={({ line }) => state.search === searchOf(path, line)}
        onChoose={({ line }) => {
          const search = searchOf(path, line);
          change({ search: state.search === search ? '' : search });
        }}
        attributes={({ line }) => ({ 'data-line': line })}
        empty="no line of this file is known"
      />
    </div>
  );
}
