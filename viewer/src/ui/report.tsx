// The text of memreplay report.

import type { ReportBlock } from '../core/page.js';

function Block({ block, first }: { block: ReportBlock; first: boolean }) {
  switch (block.kind) {
    case 'heading':
      return first ? <h2>{block.text}</h2> : <h3>{block.text}</h3>;
    case 'pairs':
      return (
        <dl class="pairs">
          {block.rows.map(([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </>
          ))}
        </dl>
      );
    case 'table':
      return (
        <div class="wide">
          <table>
            <thead>
              <tr>
                {block.titles.map((title, i) => (
                  <th key={title} class={block.aligns[i]} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {block.rows.map(({ cells, below }, i) => (
                <tr key={i}>
                  {cells.map((cell, k) => (
                    <td key={k} class={block.aligns[k]}>
                      {cell}
                      {k === cells.length - 1 &&
                        below.map((line) => (
                          <div class="callers" key={line}>
                            {line}
                          </div>
                        ))}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case 'lines':
      return <pre>{block.lines.join('\n')}</pre>;
    case 'note':
      return <p class={block.warning ? 'warning' : 'note'}>{block.text}</p>;
  }
}

export function Blocks({ blocks }: { blocks: readonly ReportBlock[] }) {
  return (
    <div class="report">
      {blocks.map((block, i) => (
        <Block key={i} block={block} first={i === 0 || block.kind === 'heading'} />
      ))}
    </div>
  );
}
