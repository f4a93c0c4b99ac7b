export function BlockMap(_: any) {
  return <p>BlockMap</p>;
}
