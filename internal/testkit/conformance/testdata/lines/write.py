"""Writes three records with the logger that the argument names."""
import logging
import sys


def loguru():
    from loguru import logger
    return logger


def loguru_json():
    from loguru import logger
    logger.remove()
    logger.add(sys.stderr, serialize=True)
    return logger


def structlog():
    import structlog
    return structlog.get_logger()


def structlog_json():
    import structlog
    structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso"), structlog.processors.JSONRenderer()])
    return structlog.get_logger()


def json_logger():
    from pythonjsonlogger.json import JsonFormatter
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level="INFO", handlers=[handler])
    return logging.getLogger("shop")


def standard():
    logging.basicConfig(level="INFO", format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")
    return logging.getLogger("shop")


def default():
    logging.basicConfig(level="INFO")
    return logging.getLogger("shop")


log = globals()[sys.argv[1]]()
log.info("served")
log.warning("slow")
log.error("no card")
