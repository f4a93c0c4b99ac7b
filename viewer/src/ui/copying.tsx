// Copy or save from a view: the command line, a table as CSV, pictures.

import { useSignal } from '@preact/signals';
import { pngOf } from './saving.js';

type Cell = string | number;
export type Rows = readonly (readonly Cell[])[];

/** Formats rows as in RFC 4180. An apostrophe is put before cells that a spreadsheet would run as a formula. */
export function csvOf(rows: readonly (readonly Cell[])[]): string {
  const cell = (value: Cell) => {
    const text =
      typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

/** Lets the browser save a file. */
export function save(name: string, blob: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Copies text to the clipboard, with a fallback for pages opened from a file. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

/** A button that confirms its action. */
export function DoneButton(props: {
  label: string;
  title: string;
  done?: string;
  act: () => Promise<void> | void;
}) {
  const said = useSignal<string | null>(null);
  const act = async () => {
    try {
      await props.act();
      said.value = props.done ?? 'saved';
    } catch (error) {
      said.value = error instanceof Error ? error.message : 'failed';
    }
    setTimeout(() => {
      said.value = null;
    }, 1500);
  };
  return (
    <button type="button" class="small" title={props.title} onClick={() => void act()}>
      {said.value ?? props.label}
    </button>
  );
}

/** Buttons that save a picture. */
export function SavePicture({ name, picture }: { name: string; picture: () => string }) {
  return (
    <>
      <DoneButton
        label="SVG"
        title="Save the picture as SVG"
        act={() => save(`${name}.svg`, new Blob([picture()], { type: 'image/svg+xml' }))}
      />
      <DoneButton
        label="PNG"
        title="Save the picture as PNG"
        act={async () => save(`${name}.png`, await pngOf(picture()))}
      />
    </>
  );
}

/** A view's command line, and buttons to copy and save. */
export function Copying(props: {
  name: string;
  /** Null if no command prints exactly what is shown. */
  command: string | null;
  /** How the command's output differs from the view. */
  note?: string;
  csv?: () => Rows | Promise<Rows>;
  /** The view as an SVG file. */
  picture?: () => string;
}) {
  const { name, command, csv, picture, note } = props;
  return (
    <div class="copying">
      {note && command !== null && <span class="dim">{note}:</span>}
      {command !== null && (
        <>
          <code
            class="command"
            data-what="command"
            title={`The command for these numbers (all rows with --top 0):\n${command}`}
          >
            {command}
          </code>
          <DoneButton
            label="copy"
            title="Copy the command"
            done="copied"
            act={() => copyText(command)}
          />
        </>
      )}
      {csv && (
        <DoneButton
          label="CSV"
          title="Save the table as CSV"
          act={async () =>
            save(`${name}.csv`, new Blob([csvOf(await csv())], { type: 'text/csv' }))
          }
        />
      )}
      {picture && <SavePicture name={name} picture={picture} />}
    </div>
  );
}
