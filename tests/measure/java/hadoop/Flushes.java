import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.qjournal.client.QuorumJournalManager;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.StartupOption;
import org.apache.hadoop.hdfs.server.namenode.EditLogOutputStream;
import org.apache.hadoop.hdfs.server.namenode.FSEditLogOp;
import org.apache.hadoop.hdfs.server.namenode.NameNodeAdapter;
import org.apache.hadoop.hdfs.server.namenode.NameNodeLayoutVersion;
import org.apache.hadoop.hdfs.server.protocol.NamespaceInfo;

/**
 * A stock writer of edits, measured: {@code Flushes URI SECONDS}. Prints a line for each figure, its name and its value
 * between tabs.
 *
 * <p>Each writer gives 32 edits of 256 bytes at a time and waits until they are on a quorum. Writers that come while
 * others are being flushed go together with the next flush, as in a NameNode.
 */
public final class Flushes {
  private static final int EDITS = 32;
  private static final int PATH_CHARACTERS = 190;
  private static final NamespaceInfo NAMESPACE = new NamespaceInfo(12345, "CID-measure", "BP-1", 0L);
  private static final int LAYOUT = NameNodeLayoutVersion.CURRENT_LAYOUT_VERSION;

  private final EditLogOutputStream stream;
  private final FSEditLogOp op = NameNodeAdapter.createMkdirOp("/".concat("d".repeat(PATH_CHARACTERS)));
  private long written;
  private long synced;
  private boolean isSyncing;

  private Flushes(EditLogOutputStream stream, long firstTxid) {
    this.stream = stream;
    this.written = this.synced = firstTxid - 1;
  }

  public static void main(String[] arguments) throws Exception {
    URI uri = new URI(arguments[0]);
    double seconds = Double.parseDouble(arguments[1]);
    Configuration configuration = new Configuration();
    QuorumJournalManager writer = new QuorumJournalManager(configuration, uri, NAMESPACE, null);
    writer.format(NAMESPACE, false);
    writer.recoverUnfinalizedSegments();
    long txid = 1;
    for (int writers : new int[] {1, 100, 1, 100}) {
      boolean isWarmUp = txid == 1;
      Flushes log = new Flushes(writer.startLogSegment(txid, LAYOUT), txid);
      log.measure(writers, isWarmUp ? seconds / 2 : seconds, isWarmUp ? "warm up, " : "");
      long last = log.synced;
      log.stream.close();
      writer.finalizeLogSegment(txid, last);
      txid = last + 1;
    }
    Flushes open = new Flushes(writer.startLogSegment(txid, LAYOUT), txid);
    open.measure(100, seconds / 4, "left open, ");
    long began = System.nanoTime();
    QuorumJournalManager heir = new QuorumJournalManager(configuration, uri, NAMESPACE, null);
    heir.recoverUnfinalizedSegments();
    tell("take-over, ms", (System.nanoTime() - began) / 1e6);
    tell("take-over, edits open", open.synced - txid + 1);
    System.out.flush();
    System.exit(0);
  }

  private void measure(int writers, double seconds, String prefix) throws Exception {
    long end = System.nanoTime() + (long) (seconds * 1e9);
    long first = synced;
    List<Thread> threads = new ArrayList<>();
    List<long[]> all = new ArrayList<>();
    long began = System.nanoTime();
    for (int n = 0; n < writers; n++) {
      Thread thread = new Thread(() -> {
        List<Long> latencies = new ArrayList<>();
        try {
          while (System.nanoTime() < end) {
            long from = System.nanoTime();
            sync(write());
            latencies.add(System.nanoTime() - from);
          }
        } catch (Exception error) {
          error.printStackTrace();
          System.exit(1);
        }
        synchronized (all) {
          all.add(latencies.stream().mapToLong(Long::longValue).toArray());
        }
      });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    double took = (System.nanoTime() - began) / 1e9;
    long[] sorted = all.stream().flatMapToLong(Arrays::stream).sorted().toArray();
    String name = prefix + writers + (writers == 1 ? " writer, " : " writers, ");
    tell(name + "p50 ms", sorted[sorted.length / 2] / 1e6);
    tell(name + "p99 ms", sorted[sorted.length * 99 / 100] / 1e6);
    tell(name + "edits/s", (synced - first) / took);
  }

  private synchronized long write() throws Exception {
    for (int n = 0; n < EDITS; n++) {
      op.setTransactionId(++written);
      stream.write(op);
    }
    return written;
  }

  private void sync(long txid) throws Exception {
    long going;
    synchronized (this) {
      while (isSyncing && synced < txid) {
        wait();
      }
      if (synced >= txid) {
        return;
      }
      isSyncing = true;
      going = written;
      stream.setReadyToFlush();
    }
    stream.flush();
    synchronized (this) {
      synced = going;
      isSyncing = false;
      notifyAll();
    }
  }

  private static void tell(String name, double value) {
    System.out.printf("%s\t%.3f%n", name, value);
  }
}
