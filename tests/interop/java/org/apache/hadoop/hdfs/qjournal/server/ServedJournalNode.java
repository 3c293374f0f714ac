package org.apache.hadoop.hdfs.qjournal.server;

import com.fasterxml.jackson.databind.JsonNode;
import interop.JournalHost;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.StartupOption;

/** One of our daemons, seen as the JournalNode that Hadoop's tests stop, and look into. */
public final class ServedJournalNode extends JournalNode {
  private static final String HOST = "127.0.0.1";
  private static final AtomicInteger LOOKS = new AtomicInteger();

  private final JournalHost host;
  private final String name;
  private final File storage;
  private final Configuration configuration;
  private int rpcPort;
  private int httpPort;
  private boolean serving;
  private boolean over;

  /** What a test may look into: a stock journal, opened on a shadow of its own. */
  final class LookIn extends Journal {
    private final String id;

    private LookIn(File shadow, String id) throws IOException {
      super(configuration, shadow, id, StartupOption.REGULAR, file -> {});
      this.id = id;
    }

    void spoilCache(long txid) throws IOException {
      host.ask("spoil", Map.of("name", name, "journal", id, "txid", txid));
    }
  }

  public ServedJournalNode(JournalHost host, int number, File storage, Configuration configuration) {
    this.host = host;
    this.name = "jn" + number;
    this.storage = storage;
    this.configuration = new Configuration(configuration);
  }

  /** Serves on these ports; 0 takes a free one. */
  public void serve(int rpc, int http) throws IOException {
    JsonNode answer = host.ask("start", Map.of("name", name, "rpc", rpc, "http", http));
    rpcPort = answer.get("rpc").asInt();
    httpPort = answer.get("http").asInt();
    serving = true;
  }

  /** Serves on the ports that it had, if it does not. */
  public void serveAgain() throws IOException {
    if (!serving) {
      serve(rpcPort, httpPort);
    }
  }

  public int rpcPort() {
    return rpcPort;
  }

  /** The folder of a journal, or one in it: drawn anew now and each time it is listed. */
  public File shadow(String journal, String... below) {
    File folder = new File(storage, journal);
    for (String part : below) {
      folder = new File(folder, part);
    }
    File shadow = new Shadow(folder, journal);
    draw(journal, storage);
    return shadow;
  }

  /** After this the shadow stays as it is: the host ends. */
  public void lookForTheLastTime() {
    if (!over && storage.isDirectory()) {
      for (File journal : storage.listFiles(File::isDirectory)) {
        draw(journal.getName(), storage);
      }
    }
    over = true;
    serving = false;
  }

  @Override
  public Journal getOrCreateJournal(String journal) throws IOException {
    // In a folder of its own each time: a stock journal changes the folder that it opens, and may keep it locked.
    File folder = new File(storage.getPath() + ".look-in-" + LOOKS.incrementAndGet());
    draw(journal, folder);
    return new LookIn(new File(folder, journal), journal);
  }

  @Override
  public Journal getOrCreateJournal(String journal, String nameServiceId) throws IOException {
    return getOrCreateJournal(journal);
  }

  @Override
  public Journal getJournal(String journal) {
    try {
      return getOrCreateJournal(journal);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void stop(int code) {
    if (serving && !over) {
      serving = false;
      try {
        host.ask("stop", Map.of("name", name));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  @Override
  public void stopAndJoin(int code) {
    stop(code);
  }

  @Override
  public boolean isStarted() {
    return serving;
  }

  @Override
  public InetSocketAddress getBoundIpcAddress() {
    return new InetSocketAddress(HOST, rpcPort);
  }

  @Override
  public InetSocketAddress getBoundHttpAddress() {
    return new InetSocketAddress(HOST, httpPort);
  }

  @Override
  public String getHttpServerURI() {
    return "http://" + HOST + ":" + httpPort;
  }

  @Override
  public Configuration getConf() {
    return configuration;
  }

  private void draw(String journal, File directory) {
    if (over) {
      return;
    }
    try {
      host.ask("draw", Map.of("name", name, "journal", journal, "directory", directory.getPath()));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private final class Shadow extends File {
    private final String journal;

    private Shadow(File folder, String journal) {
      super(folder.getPath());
      this.journal = journal;
    }

    @Override
    public File[] listFiles() {
      draw(journal, storage);
      return super.listFiles();
    }
  }
}
