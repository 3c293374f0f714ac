import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.function.Supplier;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;

/**
 * A client of BookKeeper, measured: {@code Ledgers URI} makes a new cluster there and says so. Then each line that it is
 * told is a workload: {@code appends|ledgers BYTES AT_ONCE SECONDS}, where ledgers of no bytes stay empty. It says when
 * the warm-up is over, and then how many there were in how many seconds, and the 50th and 99th percentile of their
 * milliseconds, between tabs.
 */
public final class Ledgers {
  private static final double WARM_UP_SECONDS = 1.0;

  public static void main(String[] arguments) throws Exception {
    ServerConfiguration cluster = new ServerConfiguration();
    cluster.setMetadataServiceUri(arguments[0]);
    say(BookKeeperAdmin.initNewCluster(cluster) ? "made" : "failed");
    Scanner told = new Scanner(System.in);
    String how = told.next();
    ClientConfiguration configuration = new ClientConfiguration();
    configuration.setMetadataServiceUri(arguments[0]).setUseV2WireProtocol(true).setThrottleValue(0);
    BookKeeper client = BookKeeper.newBuilder(configuration).build();
    for (; ; how = told.next()) {
      byte[] payload = new byte[told.nextInt()];
      int atOnce = told.nextInt();
      double seconds = Double.parseDouble(told.next());
      if (how.equals("appends")) {
        WriteHandle handle = created(client).get();
        measure(() -> handle.appendAsync(payload), atOnce, seconds);
        handle.close();
      } else {
        measure(() -> made(client, payload), atOnce, seconds);
      }
    }
  }

  private static void measure(Supplier<CompletableFuture<?>> work, int atOnce, double seconds) throws Exception {
    run(work, atOnce, Math.min(WARM_UP_SECONDS, seconds / 4));
    say("begins");
    long began = System.nanoTime();
    List<Long> sorted = run(work, atOnce, seconds);
    double took = (System.nanoTime() - began) / 1e9;
    Collections.sort(sorted);
    double p50 = sorted.get(sorted.size() / 2) / 1e6;
    double p99 = sorted.get(sorted.size() * 99 / 100) / 1e6;
    say(String.format("%d\t%.6f\t%.6f\t%.6f", sorted.size(), took, p50, p99));
  }

  /** Keeps so many under way for so long; returns how many nanoseconds each took. */
  private static List<Long> run(Supplier<CompletableFuture<?>> work, int atOnce, double seconds) throws Exception {
    long end = System.nanoTime() + (long) (seconds * 1e9);
    List<Long> latencies = Collections.synchronizedList(new ArrayList<>());
    Semaphore room = new Semaphore(atOnce);
    while (System.nanoTime() < end) {
      room.acquire();
      long from = System.nanoTime();
      work.get().whenComplete((done, error) -> {
        if (error != null) {
          error.printStackTrace();
          System.exit(1);
        }
        latencies.add(System.nanoTime() - from);
        room.release();
      });
    }
    room.acquire(atOnce);
    return latencies;
  }

  private static CompletableFuture<Void> made(BookKeeper client, byte[] payload) {
    return created(client).thenCompose(handle -> payload.length == 0
        ? handle.closeAsync()
        : handle.appendAsync(payload).thenCompose(entry -> handle.closeAsync()));
  }

  private static CompletableFuture<WriteHandle> created(BookKeeper client) {
    return client.newCreateLedgerOp().withEnsembleSize(3).withWriteQuorumSize(3).withAckQuorumSize(2)
        .withDigestType(DigestType.CRC32C).withPassword(new byte[0]).execute();
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
