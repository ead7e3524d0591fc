import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Writes three records with SLF4J's logger, which is logback or log4j2, or with java.util.logging. */
class Write {
    public static void main(String[] args) {
        if (args[0].equals("jul")) {
            java.util.logging.Logger log = java.util.logging.Logger.getLogger("shop");
            log.info("served");
            log.warning("slow");
            log.severe("no card");
            return;
        }
        if (args[0].equals("log4j2")) {
            org.apache.logging.log4j.Logger log = org.apache.logging.log4j.LogManager.getLogger("shop");
            log.info("served");
            log.warn("slow");
            log.error("no card");
            return;
        }
        Logger log = LoggerFactory.getLogger("shop");
        log.info("served");
        log.warn("slow");
        log.error("no card");
    }
}
