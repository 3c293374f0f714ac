package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.hdfs.qjournal.server.JournalFaultInjector;

/**
 * The process that serves our journals, spoken to in lines of JSON; see host.py for its side.
 *
 * <p>It asks back before and after it stores an accepted recovery, and is answered by Hadoop's fault injector.
 */
public final class JournalHost implements Closeable {
  private static final long ANSWER_SECONDS_MAX = 60;
  private static final long END_SECONDS_MAX = 20;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Process process;
  private final Writer toHost;
  private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
  private final ExecutorService injector = Executors.newCachedThreadPool(JournalHost::daemon);
  private long lastId;

  /** Starts it over the data in this folder, which may be empty or not there. */
  public JournalHost(File data) throws IOException {
    ProcessBuilder builder =
        new ProcessBuilder(System.getProperty("interop.python"), "-m", "tests.interop.host", data.getAbsolutePath());
    builder.directory(new File(System.getProperty("interop.root")));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    process = builder.start();
    toHost = process.outputWriter(StandardCharsets.UTF_8);
    daemon(this::listen).start();
  }

  /** Has the host do something, and returns its answer. */
  public JsonNode ask(String what, Map<String, ?> details) throws IOException {
    CompletableFuture<JsonNode> answer = new CompletableFuture<>();
    Map<String, Object> request = new HashMap<>(details);
    request.put("do", what);
    synchronized (this) {
      request.put("id", ++lastId);
      waiting.put(lastId, answer);
    }
    tell(request);
    if (!process.isAlive()) {
      answer.completeExceptionally(new IOException("the host of the journals has ended"));
    }
    try {
      return answer.get(ANSWER_SECONDS_MAX, TimeUnit.SECONDS);
    } catch (ExecutionException failed) {
      throw new IOException(what + " failed: " + failed.getCause().getMessage(), failed.getCause());
    } catch (TimeoutException | InterruptedException late) {
      throw new IOException(what + ": no answer of the host", late);
    }
  }

  /** Ends the host and all that it serves. */
  @Override
  public void close() throws IOException {
    toHost.close();
    try {
      if (!process.waitFor(END_SECONDS_MAX, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException interrupted) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
    injector.shutdown();
  }

  private synchronized void tell(Map<String, ?> message) throws IOException {
    toHost.write(JSON.writeValueAsString(message) + "\n");
    toHost.flush();
  }

  private void listen() {
    String why = "the host of the journals has ended";
    try (BufferedReader fromHost = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = fromHost.readLine(); line != null; line = fromHost.readLine()) {
        hear(JSON.readTree(line));
      }
    } catch (IOException broken) {
      why = broken.toString();
    }
    for (CompletableFuture<JsonNode> answer : waiting.values()) {
      answer.completeExceptionally(new IOException(why));
    }
  }

  private void hear(JsonNode said) {
    if (said.has("inject")) {
      injector.execute(() -> inject(said.get("inject").asLong(), said.get("point").asText()));
      return;
    }
    CompletableFuture<JsonNode> answer = waiting.remove(said.get("id").asLong());
    if (said.has("error")) {
      answer.completeExceptionally(new IOException(said.get("error").asText()));
    } else {
      answer.complete(said);
    }
  }

  private void inject(long number, String point) {
    Map<String, Object> reply = new HashMap<>();
    reply.put("injected", number);
    try {
      if (point.equals("before")) {
        JournalFaultInjector.get().beforePersistPaxosData();
      } else {
        JournalFaultInjector.get().afterPersistPaxosData();
      }
    } catch (Exception fault) {
      reply.put("error", String.valueOf(fault.getMessage()));
    }
    try {
      tell(reply);
    } catch (IOException ended) {
      System.err.println("the host of the journals did not hear of a fault: " + ended);
    }
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "host of the journals");
    thread.setDaemon(true);
    return thread;
  }
}
