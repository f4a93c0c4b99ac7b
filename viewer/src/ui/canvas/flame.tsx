export function Flame(_: any) {
  return <p>Flame</p>;
}
