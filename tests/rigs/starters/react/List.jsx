import Head from "./Head.jsx";
import Items from "./Items.jsx";

export default function List() {
  return (
    <main>
      <Head>w9004q1</Head>
      <Items of="list" />
    </main>
  );
}
